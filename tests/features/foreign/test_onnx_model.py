"""ONNX files of others: any batch size, external data from their folder, and errors in one sentence."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import SparseTensorProto, TensorProto, numpy_helper

from mappable.checksums import UNSEALED, seal
from mappable.errors import BadInputError
from mappable.features.encoder import Encoder
from mappable.features.foreign.encoder import ForeignEncoder
from mappable.features.onnx_export import to_onnx
from mappable.features.opening import open_file

Write = Callable[..., Path]
SMALL = np.random.default_rng(0).integers(0, 256, (5, 48, 64, 3), dtype=np.uint8)


def expected() -> Any:
    cells = (
        (SMALL / 255 - 0.5)
        .reshape(5, 6, 8, 8, 8, 3)
        .mean((2, 4))
        .transpose(0, 3, 1, 2)
        .reshape(5, -1)
    )
    return cells / np.linalg.norm(cells, axis=1, keepdims=True)


@pytest.mark.parametrize("batch", ["batch", 1, 2, 4])
def test_any_batch_size_of_the_file_serves_any_number_of_images(
    foreign_onnx: Write, batch: int | str
) -> None:
    encoder = open_file(foreign_onnx(batch=batch), "cpu")
    assert (encoder.dimensions, encoder.device.type, encoder.about.weights) == (
        144,
        "cpu",
        "model.onnx",
    )
    np.testing.assert_allclose(encoder.embed(SMALL), expected(), atol=1e-5)
    np.testing.assert_allclose(encoder.for_queries()(SMALL[:1]), expected()[:1], atol=1e-5)
    assert encoder.embed(SMALL[:0]).shape == (0, 144)
    with pytest.raises(BadInputError, match="computes in float32"):
        encoder.embed(SMALL, precision="bfloat16")


def test_layout_colors_and_range_are_those_of_the_description(foreign_onnx: Write) -> None:
    file = foreign_onnx()
    text = (
        file.with_suffix(".yaml")
        .read_text()
        .replace("RGB", "BGR")
        .replace("0.5, 0.5, 0.5", "127.5, 127.5, 127.5")
    )
    file.with_suffix(".yaml").write_text(f"{text}range: 255\n")
    flipped = open_file(file, "cpu")
    assert flipped.about.mean == (0.5, 0.5, 0.5)
    np.testing.assert_allclose(flipped.embed(SMALL[..., ::-1].copy()), expected(), atol=1e-5)


def test_external_data_beside_the_file_count_as_weights(foreign_onnx: Write) -> None:
    inside = open_file(foreign_onnx(), "cpu")
    file = foreign_onnx(
        "apart", save_as_external_data=True, location="apart.onnx.data", size_threshold=0
    )
    data = file.with_name("apart.onnx.data")
    assert data.is_file()
    encoder = open_file(file, "cpu")
    np.testing.assert_array_equal(encoder.embed(SMALL), inside.embed(SMALL))
    data.write_bytes((2 * np.frombuffer(data.read_bytes(), np.float32)).tobytes())
    assert open_file(file, "cpu").fingerprint != encoder.fingerprint
    data.unlink()
    with pytest.raises(BadInputError, match=r"apart\.onnx: .*apart\.onnx\.data"):
        open_file(file, "cpu")


def sparse(weight: TensorProto) -> SparseTensorProto:
    indices = numpy_helper.from_array(np.arange(weight.dims[0]), "indices")
    return SparseTensorProto(values=weight, indices=indices, dims=weight.dims)


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["plain", "sparse"])
def test_no_file_of_the_current_folder_is_read(
    foreign_onnx: Write,
    encoder: Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """onnxruntime reads external data from the current folder if it gets the content of a model."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("secret").write_bytes(np.ones(1, np.float32).tobytes())
    weight = TensorProto(
        name="stolen", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL
    )
    weight.external_data.add(key="location", value="secret")

    def stealing(content: bytes) -> bytes:
        model = onnx.load_from_string(content)
        if kind == "plain":
            model.graph.initializer.append(weight)
        else:
            model.graph.sparse_initializer.append(sparse(weight))
        output = model.graph.output[0].name
        next(node for node in model.graph.node if output in node.output).output[0] = "before"
        model.graph.node.append(onnx.helper.make_node("Add", ["before", "stolen"], [output]))
        for entry in model.metadata_props:
            entry.value = re.sub(r"mappable-xxh3:\w{32}", UNSEALED, entry.value)
        stolen: bytes = model.SerializeToString()
        return seal(stolen) if model.metadata_props else stolen

    file = foreign_onnx()
    opened = open_file(file, "cpu")
    assert isinstance(opened, ForeignEncoder)
    kept, own = tmp_path / "kept.onnx", tmp_path / "own.onnx"
    kept.write_bytes(opened.copy()[1])
    own.write_bytes(to_onnx(encoder))
    for one, problem in (
        (file, "with its data|cannot open"),
        (kept, "cannot open"),
        (own, "not an ONNX file"),
    ):
        one.write_bytes(stealing(one.read_bytes()))
        with pytest.raises(BadInputError, match=problem):
            open_file(one, "cpu")
    Path("secret").replace(tmp_path / "secret")  # beside the file: only a plain tensor may be there
    if kind == "sparse":
        with pytest.raises(BadInputError, match="cannot open"):
            open_file(file, "cpu")
    else:
        assert open_file(file, "cpu").fingerprint != opened.fingerprint


def test_the_copy_of_a_map_is_the_same_encoder_in_one_file(
    foreign_onnx: Write, tmp_path: Path
) -> None:
    file = foreign_onnx(
        "apart", save_as_external_data=True, location="apart.onnx.data", size_threshold=0
    )
    encoder = open_file(file, "cpu")
    assert isinstance(encoder, ForeignEncoder)
    suffix, content = encoder.copy()
    kept = tmp_path / f"kept/encoder{suffix}"
    kept.parent.mkdir()
    kept.write_bytes(content)
    again = open_file(kept, "cpu")
    assert (again.fingerprint, again.about) == (encoder.fingerprint, encoder.about)
    np.testing.assert_array_equal(again.embed(SMALL), encoder.embed(SMALL))
    kept.write_bytes(content.replace(b'"MIT"', b'"GPL"'))
    with pytest.raises(BadInputError, match=r"encoder\.onnx: damaged"):
        open_file(kept, "cpu")


def describe(file: Path, old: str, new: str) -> None:
    described = file.with_suffix(".yaml")
    assert old in described.read_text()
    described.write_text(described.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("size: [64, 48]\n", "", r"model\.yaml: the key 'size' is missing"),
        ("license: MIT\n", "", "the key 'license' is missing"),
        ("layout: NCHW\n", "", "the key 'layout' is missing"),
        ("license", "licensed", "unknown key 'licensed'; the keys are .*license"),
        ("[64, 48]", "[64]", r"model\.yaml: size is \[64\]; "),
        ("[64, 48]", "[0, 48]", "size is"),
        ("[64, 48]", "64", "size is 64; it must be a valid list"),
        ("[64, 48]", "[32, 48]", r"input has the shape .*48, 64.*layout NCHW and size 32x48"),
        ("NCHW", "NHWC", "input has the shape"),
        ("NCHW", "CHW", "layout is 'CHW'.*'NCHW' or 'NHWC'"),
        ("[0.25, 0.25, 0.25]", "[0.25, 0, 0.25]", "std is"),
        ("[0.25, 0.25, 0.25]", "[0.25, .nan, 0.25]", "std is"),
        (
            "license: MIT",
            "license: MIT\noutput: other",
            "no output 'other'; its outputs are descriptors",
        ),
        (
            "license: MIT",
            "license: MIT\nonnx: ../model.onnx",
            r"describes model\.onnx, but there is no such file",
        ),
        ("license: MIT", "license: MIT\nhub: a/b:c\nonnx: model.onnx", "keys hub and onnx"),
        ("size:", "? [size", r"not a description in YAML \(row 2: "),
        (
            "license: MIT",
            "license: !!python/object/apply:os.system [ls]",
            "not a description in YAML",
        ),
        ("license: MIT", f"license: {'x' * 70_000}", "over 65,536 bytes"),
        (
            "license: MIT",
            "license: MIT\narguments: {a: 1}",
            "arguments is only for torch.hub models",
        ),
        ("[64, 48]", f"[0x{'f' * 9_000}, 48]", "not a description in YAML"),
    ],
)
def test_a_wrong_description_is_refused(
    foreign_onnx: Write, old: str, new: str, problem: str
) -> None:
    file = foreign_onnx()
    describe(file, old, new)
    with pytest.raises(BadInputError, match=problem) as error:
        open_file(file, "cpu")
    assert "\n" not in str(error.value)


def test_a_file_without_a_usable_network_is_refused(foreign_onnx: Write, tmp_path: Path) -> None:
    for change, problem in (
        (
            lambda model: model.graph.output.add(name="cells"),
            "2 outputs; name one with `output`: descriptors, cells",
        ),
        (lambda model: model.graph.node.pop(2), "onnxruntime cannot open it"),
    ):
        file = foreign_onnx()
        model = onnx.load(file)
        change(model)
        file.write_bytes(model.SerializeToString())
        with pytest.raises(BadInputError, match=problem):
            open_file(file, "cpu")
    file = foreign_onnx()
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(BadInputError, match="damaged or not an ONNX file"):
        open_file(file, "cpu")
    file.with_suffix(".yaml").unlink()
    foreign_onnx("alone").with_suffix(".yaml").unlink()
    with pytest.raises(BadInputError, match=r"alone\.onnx: .*describe its images in alone\.yaml"):
        open_file(tmp_path / "alone.onnx", "cpu")
    with pytest.raises(BadInputError, match="torch cannot compute ONNX files"):
        open_file(foreign_onnx(), "cpu", "torch")
