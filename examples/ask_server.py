"""Ask a running server where images were taken, with the standard library alone.

python ask_server.py [ADDRESS IMAGE...]    such as http://127.0.0.1:8000; MAPPABLE_TOKEN has the token, if there is one
"""

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path


def locate(address: str, image: bytes) -> dict:
    request = urllib.request.Request(f"{address}/locate?top_k=3", data=image, headers={"Content-Type": "image/jpeg"})
    if token := os.environ.get("MAPPABLE_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["positions"][0]


def main(address: str, images: list[Path]) -> None:
    for image in images:
        found = locate(address, image.read_bytes())
        x, y = found["coordinates"][:2]
        trust = "confident" if found["confident"] else f"not confident: {found['reason']}"
        print(f"{image.name}: x {x:.1f}, y {y:.1f} {found['unit']}, nearest landmark {found['landmark']}, {trust}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(sys.argv[1], [Path(name) for name in sys.argv[2:]])
    else:
        from drawn import draw_map, write_photos

        with tempfile.TemporaryDirectory() as folder:
            write_photos(Path(folder))
            opened = draw_map()
            opened.save(Path(folder, "map"))
            serve = [sys.executable, "-m", "mappable", "serve", Path(folder, "map"), "--port", "0"]
            with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
                address = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
                try:
                    main(address, sorted(Path(folder, "wednesday").iterdir())[:3])
                finally:
                    server.terminate()
