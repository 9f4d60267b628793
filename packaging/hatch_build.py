"""Build hook of hatchling: fetches plotly.js before each build, so that every wheel and sdist contains the viewer.

An sdist contains plotly.js, so a wheel built from an sdist fetches nothing.
"""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class VendorHook(BuildHookInterface):
    """Runs packaging/vendor, which does nothing if the files are there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before each build, also before an editable install."""
        runpy.run_path(str(Path(self.root) / "packaging/vendor"))["main"]()
