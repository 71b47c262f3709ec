import base64
import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspine_remote.batches import batches
from memspine_remote.shapes import ShapeError
from memspine_remote.tokens import beginning_of, estimated_tokens, window_of
from memspine_remote.vectors import packed_rows

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)

COUNTED = [
    ("The walnut was planted in the garden last spring.", 10),
    ("Zażółć gęślą jaźń, a potem pójdziemy do lasu zbierać grzyby i jagody.", 34),
    ("Die Donaudampfschifffahrtsgesellschaft hat gestern neue Regeln veröffentlicht.", 23),
    ("Вчера я ходил в магазин и купил хлеб, молоко и немного яблок для пирога.", 38),
    ("Χθες πήγα στο μαγαζί και αγόρασα ψωμί, γάλα και λίγα μήλα.", 49),
    ("我昨天去了東京，買了一些書和茶。今天我們要去大阪看朋友。", 36),
    ("ذهبت أمس إلى السوق واشتريت الخبز والحليب.", 31),
    ("कल मैं बाज़ार गया और रोटी और दूध खरीदा।", 46),
    ("Jana nilikwenda dukani na nikanunua mkate, maziwa na matunda kadhaa.", 26),
    ("Eilen kävin kaupassa ja ostin leipää, puhelinkeskuksessa odottelimme.", 27),
    ("def _piece_tokens(piece: re.Match[str]) -> int:\n    return piece.end() - piece.start()", 22),
    ("https://example.com/a/b_c-d?x=%20y&z=12345#frag", 20),
    ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 35),
    ("sk-QmFzZTY0IGlzIG5vdCBhIHNlY3JldCwgcmVhbGx5Lg==", 33),
]


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_every_vector_has_norm_one_or_is_refused(numbers):
    """Any finite numbers but zeros, however large or small, give a vector of norm 1 in the same direction."""
    if not any(numbers):
        with pytest.raises(ShapeError, match="zero"):
            packed_rows([numbers], dimension=None)
        return
    if math.isinf(math.hypot(*numbers)):
        with pytest.raises(ShapeError, match="finite"):
            packed_rows([numbers], dimension=None)
        return
    dimension, data = packed_rows([numbers], dimension=None)
    row = array("f", data)
    assert (dimension, len(row)) == (len(numbers), len(numbers))
    assert math.hypot(*row) == pytest.approx(1, abs=1e-5)
    largest = max(range(len(numbers)), key=lambda place: abs(numbers[place]))
    assert math.copysign(1, row[largest]) == math.copysign(1, numbers[largest])


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_base64_is_as_good_as_numbers(numbers):
    """Both give the same vector, or both are refused."""
    packed = base64.b64encode(array("f", numbers).tobytes()).decode()
    try:
        expected = packed_rows([numbers], dimension=None)
    except ShapeError:
        with pytest.raises(ShapeError):
            packed_rows([packed], dimension=None)
    else:
        dimension, data = packed_rows([packed], dimension=None)
        assert dimension == expected[0]
        assert array("f", data).tolist() == pytest.approx(array("f", expected[1]).tolist(), abs=1e-6)


def test_a_vector_of_norm_one_stays_as_it_is():
    """What the provider gave is not rounded a second time."""
    given_row = array("f", [0.6, 0.8])
    assert packed_rows([base64.b64encode(given_row.tobytes()).decode()], dimension=2) == (2, given_row.tobytes())


@given(st.lists(st.integers(0, 50)), st.integers(1, 5), st.integers(0, 60))
def test_batches_hold_everything_once(tokens, texts_max, tokens_max):
    """Every text is in one batch, in order, and no batch of several is beyond a limit."""
    parts = list(batches(tokens, texts_max=texts_max, tokens_max=tokens_max))
    assert [place for part in parts for place in part] == list(range(len(tokens)))
    for part in parts:
        assert 1 <= len(part) <= texts_max
        assert len(part) == 1 or sum(tokens[place] for place in part) <= tokens_max


@given(TEXTS, TEXTS)
def test_the_estimate_rises_with_the_text(left, right):
    """A longer text never takes fewer tokens, and none takes more than its bytes and the two at its ends."""
    assert estimated_tokens(left) <= estimated_tokens(left + right)
    assert 2 <= estimated_tokens(left) <= len(left.encode()) + 2


@given(TEXTS, st.integers(2, 40))
def test_a_beginning_fits(text, tokens_max):
    """A text is cut to the tokens it may take, and not at all if it takes no more."""
    beginning = beginning_of(text, tokens_max)
    assert text.startswith(beginning)
    assert estimated_tokens(beginning) <= tokens_max
    assert (beginning == text) == (estimated_tokens(text) <= tokens_max)


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("text-embedding-3-small", 8191),
        ("openai/text-embedding-3-large", 8191),
        ("nomic-embed-text:v1.5", 2048),
        ("nomic-embed-text-v2-moe", 512),
        ("embed-v4.0", 128_000),
        ("embed-multilingual-v3.0", 512),
        ("BAAI/bge-m3", 2048),
        ("all-MiniLM-L6-v2", 256),
        ("whatever", 512),
    ],
)
def test_known_windows(model, window):
    """What is known of a model by its name, in any spelling; else the smallest window in common use."""
    assert window_of(model) == window


@pytest.mark.parametrize(
    ("text", "counted"),
    COUNTED,
    ids=[str(place) for place in range(len(COUNTED))],
)
def test_the_estimate_is_not_too_low(text, counted):
    """What people write takes at most as many tokens as estimated, as cl100k counts them, and at least a quarter."""
    assert counted + 2 <= estimated_tokens(text) <= 4 * counted + 6
