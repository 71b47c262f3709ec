import pytest

from memspine_sqlite import packing


@pytest.mark.parametrize("beside", [packing.BESIDE_CODE, packing.BESIDE_PIECE])
@pytest.mark.parametrize("size", [8, 48, 256, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 40000])
def test_pieces_make_the_whole(size, beside):
    """A vector comes back from its pieces, of which there are three at most, none of them empty."""
    sizes = packing.pieces(size, beside=beside)
    vector = bytes(n % 251 for n in range(size))
    assert 1 <= len(sizes) <= 1 + len(packing.TABLES)
    assert min(sizes) > 0
    assert b"".join(packing.cut(vector, sizes)) == vector


@pytest.mark.parametrize(("dimension", "count"), [(256, 1), (384, 1), (512, 2), (768, 2), (1024, 2), (1536, 3)])
def test_only_what_wastes_pages_is_cut(dimension, count):
    """Vectors that fill their pages are left whole, because putting them together takes time."""
    assert len(packing.pieces(4 * dimension, beside=packing.BESIDE_CODE)) == count
