import contextlib
import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspine_static import tokens
from memspine_static.config import StaticConfig, model_folder
from memspine_static.failures import ModelFilesError
from memspine_static.model import BATCH_TEXTS, BATCH_TOKENS, WordlessText, load_model
from memspine_static.tensors import read_tensors

from .tools import WORDS, embedded, matrix, rules, tensors, write

LISTED = ["[UNK]", *WORDS]


def expected(words, table=None, weights=None, mapping=None):
    """The vector of a text of whole words, by the definition: weighted mean, norm 1."""
    table = matrix() if table is None else table
    total = np.zeros(table.shape[1])
    for word in words:
        id = LISTED.index(word)
        row = table[id if mapping is None else mapping[id]].astype(np.float64)
        total += row * (1 if weights is None else weights[id])
    return total / np.linalg.norm(total)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_a_text_is_the_mean_of_its_tokens(tmp_path, dtype):
    """Whatever type of numbers the table has."""
    table = matrix(dtype=dtype)
    (found,) = embedded(["The walnut plays"], folder=str(write(tmp_path, embeddings=table)))
    assert found == pytest.approx(expected(["the", "walnut", "plays"], table), abs=1e-5)


def test_words_are_cut_into_pieces(tmp_path):
    """A word that the table does not have counts with its longest pieces."""
    (found,) = embedded(["Trains!"], folder=str(write(tmp_path)))
    assert found == pytest.approx(expected(["train", "##s"]), abs=1e-5)


def test_unknown_words_count_for_nothing(tmp_path):
    """They neither add the vector of the unknown token nor change how the others are weighed."""
    folder = str(write(tmp_path))
    with_unknown, without = embedded(["walnut zzz tree 雪", "walnut tree"], folder=folder)
    assert with_unknown == pytest.approx(without, abs=1e-6)


def test_weights_and_mapping_are_used(tmp_path):
    """As newer folders have them: several tokens share a row, and each has its own weight."""
    mapping = np.arange(len(LISTED)) // 2
    weights = np.linspace(0.1, 2, len(LISTED))
    table = matrix(rows=int(mapping.max()) + 1)
    folder = write(tmp_path, embeddings=table, weights=weights, mapping=mapping)
    (found,) = embedded(["hello world"], folder=str(folder))
    assert found == pytest.approx(expected(["hello", "world"], table, weights, mapping), abs=1e-5)


def test_the_other_name_of_the_table_is_known(tmp_path):
    """sentence-transformers calls it `embedding.weight`."""
    (tmp_path / "model").mkdir()
    folder = write(tmp_path / "model", **{"embedding.weight": matrix()})
    assert embedded(["tree"], folder=str(folder))[0] == pytest.approx(expected(["tree"]), abs=1e-5)


def test_what_a_transformer_needs_around_a_text_is_left_out(tmp_path):
    """Padding and cutting that a tokenizer.json asks for do not reach the vectors."""
    padding = {"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 3}
    padding |= {"pad_type_id": 0, "pad_token": "walnut"}
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    tokenizer = rules(padding=padding, truncation=truncation)
    (found,) = embedded(["hello world tree"], folder=str(write(tmp_path, tokenizer=tokenizer)))
    assert found == pytest.approx(expected(["hello", "world", "tree"]), abs=1e-5)


def test_a_unigram_vocabulary_is_known(tmp_path):
    """Its pieces are a list with scores, and its unknown token has an index."""
    vocabulary = [["<unk>", 0.0], ["▁hello", -1.0], ["▁world", -1.0], ["▁", -4.0], ["x", -5.0]]
    tokenizer = rules(
        model={"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": False},
        normalizer=None,
        pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        decoder=None,
    )
    table = matrix(rows=5)
    (found,) = embedded(["hello world"], folder=str(write(tmp_path, tokenizer=tokenizer, embeddings=table)))
    total = table[1] + table[2]
    assert found == pytest.approx(total / np.linalg.norm(total), abs=1e-5)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.sampled_from(WORDS[:11]), min_size=1, max_size=9).map(" ".join), min_size=1, max_size=12))
def test_a_batch_is_its_texts(tmp_path_factory, texts):
    """Each text has the vector that the definition gives it, whatever stands beside it."""
    folder = tmp_path_factory.getbasetemp() / "shared"
    model = load_model(folder if folder.exists() else write(folder))
    for text, found in zip(texts, model.embed(texts), strict=True):
        assert found == pytest.approx(expected(text.split()), abs=1e-5)
    assert model.count(texts) == tuple(len(text.split()) for text in texts)


@settings(deadline=None, max_examples=150)
@given(st.text())
def test_any_text_has_a_vector_or_is_empty(shipped, text):
    """The shipped model answers every text that is not blank with a unit vector."""
    if text.strip():
        (found,) = shipped.embed([text])
        assert np.linalg.norm(found) == pytest.approx(1, abs=1e-4)
    else:
        with pytest.raises(WordlessText):
            shipped.embed([text])


@pytest.fixture(scope="module")
def shipped():
    """The model of the package."""
    return load_model(model_folder(StaticConfig(), None)[0])


def test_a_text_of_unknown_signs_is_near_to_itself_alone(shipped):
    """Emoji that the model has no token for are found by the same emoji, and say nothing of anything else."""
    texts = ["🦭🦭🫧", "🫧 🦭", "🪗", "The seal swims.", "Invoices are paid in March."]
    similarities = shipped.embed(texts) @ shipped.embed(texts[:1]).T
    assert similarities[1] > 0.9
    assert np.abs(similarities[2:]).max() < 0.3


@pytest.mark.parametrize("floor", [0.5, 4.0, 100.0])
def test_a_floor_makes_short_documents_less_near(tmp_path, floor):
    """A document's cosine with any query is what it would be, times its length over the floor if that is below 1."""
    plain, floored = load_model(write(tmp_path / "a")), load_model(write(tmp_path / "b", floor=floor))
    texts = ["walnut", "the cello plays", "hello world hello world tree garden tree"]
    lengths = np.array([np.linalg.norm(sum(matrix()[LISTED.index(word)] for word in text.split())) for text in texts])
    asked = plain.embed(["spring garden"]) @ plain.embed(texts).T * np.minimum(1, lengths / floor)
    documents = floored.embed(texts, as_documents=True)
    assert floored.embed(["spring garden"]) @ documents.T == pytest.approx(asked, abs=1e-5)
    assert np.linalg.norm(documents, axis=1) == pytest.approx(1, abs=1e-5)
    assert (floored.embed(texts, as_documents=True) == documents).all()


def test_short_documents_are_not_near_each_other(shipped):
    """What fills them up to the floor has another direction in each."""
    greetings = ["Hi!", "Thanks.", "Okay.", "Bye!", "Nice!", "Sure.", "Lovely.", "Great."]
    documents = shipped.embed(greetings, as_documents=True)
    similarities = (documents @ documents.T)[np.triu_indices(len(greetings), 1)]
    assert abs(similarities.mean()) < 0.3


def test_portions_leave_no_seam(tmp_path):
    """Texts at the borders of portions, and texts longer than a portion, have the vectors they have alone."""
    model = load_model(write(tmp_path))
    texts = ["walnut tree " * (BATCH_TOKENS // 2 + 7), *("hello world", "the cello") * BATCH_TEXTS, "garden"]
    found = model.embed(texts)
    for place in (0, 1, BATCH_TEXTS - 1, BATCH_TEXTS, 2 * BATCH_TEXTS, len(texts) - 1):
        assert found[place] == pytest.approx(model.embed([texts[place]])[0], abs=1e-5)


def test_tensors_are_not_copied(tmp_path):
    """The table stays in the file until its rows are used."""
    (tmp_path / "t").write_bytes(tensors(embeddings=matrix()))
    found = read_tensors(tmp_path / "t")["embeddings"]
    assert isinstance(found.base if found.base is not None else found, np.memmap | np.ndarray)
    assert not found.flags.writeable
    assert (found == matrix()).all()


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_a_cut_or_changed_file_never_gives_other_errors(tmp_path_factory, data):
    """Whatever bytes stand in the weights: the model loads, or it is the files' error."""
    folder = tmp_path_factory.getbasetemp() / "broken"
    write(folder, embeddings=matrix(), weights=np.ones(len(LISTED), np.float32))
    path = folder / "model.safetensors"
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, min(len(whole) - 1, 250)))] = data.draw(st.integers(0, 255))
    path.unlink()  # a file that is mapped is replaced, not rewritten
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with contextlib.suppress(ModelFilesError):
        load_model(folder)


def test_the_revision_is_that_of_the_files(tmp_path):
    """Another weight or another tokenizer is another revision; another place is not."""
    first = load_model(write(tmp_path / "a")).revision
    assert load_model(write(tmp_path / "b")).revision == first
    changed = matrix()
    changed[3, 3] += 1
    assert load_model(write(tmp_path / "c", embeddings=changed)).revision != first
    folder = write(tmp_path / "d")
    (folder / "tokenizer.json").write_text(json.dumps(rules([*WORDS[:-1], "moon"])), encoding="utf-8")
    assert load_model(folder).revision != first


def copied(folder):
    """A copy of the shipped model."""
    return Path(shutil.copytree(model_folder(StaticConfig(), None)[0], folder))


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_the_compiled_tokenizer_is_the_same(texts):
    """The tokens of every text are those of the tokenizer.json that the compiled one was made from."""
    compiled, plain = compiled_and_plain()
    assert (compiled.count, compiled.unknown) == (plain.count, plain.unknown)
    for one, other in zip(compiled.ids(texts), plain.ids(texts), strict=True):
        assert one.tolist() == other.tolist()


@functools.cache
def compiled_and_plain():
    folder, _ = model_folder(StaticConfig(), None)
    found = load_model(folder).tokens
    assert found.is_compiled
    path = folder / "tokenizer.json"
    return found, tokens.Tokens(path, path.read_bytes())


@pytest.mark.parametrize("harm", ["missing", "cut off", "damaged", "another tokenizer"])
def test_a_compiled_tokenizer_that_is_no_use_is_left_alone(tmp_path, harm):
    """Whatever is wrong with it, the tokenizer.json beside it is read instead."""
    folder = copied(tmp_path / "model")
    path = folder / "tokenizer.tkz"
    if harm == "missing":
        path.unlink()
    elif harm == "cut off":
        path.write_bytes(path.read_bytes()[:1000])
    elif harm == "damaged":
        path.write_bytes(b"x" * path.stat().st_size)
    else:
        other = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        (folder / "tokenizer.json").write_text(json.dumps(other), encoding="utf-8")
    found = load_model(folder).tokens
    assert not found.is_compiled
    assert found.ids(["hello world"])[0].tolist() == compiled_and_plain()[0].ids(["hello world"])[0].tolist()
