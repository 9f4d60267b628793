"""Files from anyone: what is damaged or absurd is one sentence that names the file, before memory is used."""

import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save

from mappable.checksums import UNSEALED, check_seal, digest, digest_of_file, seal
from mappable.containers import read_npy, read_parquet, read_safetensors
from mappable.errors import BadInputError, DamagedFileError
from mappable.formats import KEY

SHAPES: list[tuple[int, ...]] = [(), (0,), (0, 5), (7,), (3, 4), (2, 3, 4)]
DTYPES = ["bool", "uint8", "int64", "float16", "float32", ">f8", "complex64"]


def npy(text: str, version: bytes = b"\x01\x00", data: bytes = b"") -> bytes:
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_arrays_of_numbers_are_read_as_numpy_reads_them(
    shape: tuple[int, ...], dtype: str, mapped: bool, tmp_path: Path
) -> None:
    values = np.random.default_rng(1).integers(0, 2, shape).astype(dtype)
    for order in ("C", "F"):
        np.save(tmp_path / "a.npy", np.asarray(values, order=order))
        found = read_npy(tmp_path / "a.npy", shape=shape, dtype=dtype, mapped=mapped)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUM",
        b"\x93NUMPY\x01\x00\xff",
        b"PK\x03\x04",
        b"1 2 3\n",
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), "),  # the brace is gone
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), 'more': 1}"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", data=bytes(8)),
        npy("{'descr': '|S0', 'fortran_order': False, 'shape': (9, 9), }"),
        npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", data=bytes(8)),
        npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }",
            data=bytes(64),
        ),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -2), }", data=bytes(32)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1" + "0" * 30 + "), }"),
        npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "0," * 30 + "), }",
            version=b"\x02\x00",
        ),
        npy(
            "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
            version=b"\x03\x00",
            data=bytes(16),
        ),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", data=bytes(15)),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", data=bytes(17)),
    ],
)
@pytest.mark.parametrize("mapped", [False, True])
def test_absurd_arrays_are_refused_before_memory_is_used(
    content: bytes, mapped: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(DamagedFileError, match=r"a\.npy: ") as caught:
        read_npy(tmp_path / "a.npy", mapped=mapped)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6
    assert "\n" not in str(caught.value)
    assert "pickle" not in str(caught.value)


def test_a_small_parquet_file_that_becomes_large_is_refused(tmp_path: Path) -> None:
    file, rows = tmp_path / "a.parquet", 50_000
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["x" * 10_000])
    pyarrow.parquet.write_table(pyarrow.table({"text": texts}), file, store_schema=False)
    with pytest.raises(DamagedFileError, match=r"a\.parquet: damaged \(its texts have over"):
        read_parquet(file)
    pyarrow.parquet.write_table(pyarrow.table({f"x{n}": np.zeros(2**17) for n in range(300)}), file)
    with pytest.raises(DamagedFileError, match=r"a\.parquet: damaged \(it has over"):
        read_parquet(file)
    expected = pyarrow.table({"b": ["y", None, "y"], "a": [1, 2, 3]})
    pyarrow.parquet.write_table(expected, file)
    assert read_parquet(file).equals(expected)
    assert read_parquet(file, columns=["a", "b"]).select(["b", "a"]).equals(expected)


def sealed_safetensors() -> bytes:
    return seal(save({"w": torch.arange(6.0), "b": torch.ones(2)}, {KEY: UNSEALED}))


def sealed_parquet() -> bytes:
    written, about = io.BytesIO(), json.dumps({"checksum": UNSEALED})
    pyarrow.parquet.write_table(
        pyarrow.table({"x": ["a", "b", "b"]}).replace_schema_metadata({KEY: about}), written
    )
    return seal(written.getvalue())


@pytest.mark.parametrize("kind", ["safetensors", "parquet"])
def test_every_damaged_byte_of_a_sealed_file_is_found(kind: str, tmp_path: Path) -> None:
    whole, file = (
        {"safetensors": sealed_safetensors, "parquet": sealed_parquet}[kind](),
        tmp_path / f"a.{kind}",
    )

    def seal_read() -> str:
        if kind == "parquet":
            return str(
                (read_parquet(file).schema.metadata or {})
                .get(KEY.encode(), b"")
                .decode(errors="replace")
            )
        return read_safetensors(file, "numpy")[0].get(KEY, "")

    file.write_bytes(whole)
    prefix = UNSEALED.rstrip("0")
    assert prefix in seal_read()
    for position in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        file.write_bytes(damaged)
        try:
            # Damage in the prefix of the seal, whose absence the format refuses.
            assert prefix not in seal_read()
        except BadInputError:
            continue


def test_the_checksum_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert (
        digest_of_file(tmp_path / "a")
        == digest(b"abc")
        == digest(np.frombuffer(b"abc", dtype=np.uint8))
    )
    assert len(digest(b"")) == 32
    assert not check_seal(b"abc", tmp_path / "a")
    assert check_seal(seal(f"x {UNSEALED} y".encode()), tmp_path / "a")
