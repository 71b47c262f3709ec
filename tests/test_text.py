"""Text analysis: what becomes a term, what a question asks for, and that no text is too odd or too long."""

import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
import snowballstemmer
from hypothesis import example, given
from hypothesis import strategies as st

from memspine.text import (
    TERM_LENGTH_MAX,
    clean,
    document_terms,
    estimate_tokens,
    fold,
    memory_terms,
    query_terms,
)

ODD = "ﷺ ﹰ ｶﾞ İ ß ﬁ ½ ™ ゛ ・ 葛󠄀城 👩‍💻 1️⃣ क्षि ไทย 한국어 ㅋㅋ don't C++ a.b@c.d _x_ \u0301\x00\x1f\x85\u2028\xad\u200d"
texts = st.text() | st.text(st.sampled_from(ODD + " -.@/:'’&+#_")) | st.text(st.characters(categories=["L", "M", "N"]))


def finds(question, memory):
    """Whether a question and a memory share a term."""
    return bool(set(query_terms(question).terms) & set(document_terms(memory)))


@given(texts)
@example(ODD)
@example("æ" * 100)
def test_terms_are_index_tokens(text):
    """A term is never empty, never longer than the maximum, and holds no white space and no control character."""
    for term in (*document_terms(text), *query_terms(text).terms):
        assert 0 < len(term) <= TERM_LENGTH_MAX
        assert not any(c.isspace() or unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zs"} for c in term)


@given(texts)
@example("が한글café")
def test_normalisation_makes_no_difference(text):
    """Composed and decomposed text give the same terms."""
    composed, decomposed = unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)
    assert document_terms(text) == document_terms(composed) == document_terms(decomposed)
    assert query_terms(composed).terms == query_terms(decomposed).terms


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), min_size=1), st.data())
def test_a_word_of_a_memory_finds_it(words, data):
    """All terms of a question that is one word of a memory are among the memory's terms."""
    word = data.draw(st.sampled_from(words))
    assert set(query_terms(word).terms) <= set(document_terms(" ".join(words)))


@given(texts)
def test_every_text_with_terms_can_be_asked_for(text):
    """A question has terms exactly when a memory of the same text has: each of them once, and with its word."""
    query = query_terms(text)
    assert bool(query.terms) == bool(document_terms(text))
    assert len(set(query.terms)) == len(query.terms) == len(query.words)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("multi-agent", ["multi", "agent", "multi-agent"]),
        ("user@example.org", ["user", "exampl", "org", "user@example.org"]),
        ("getUserName", ["get", "user", "name", "getusername"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("snake_case", ["snake", "case", "snake_case"]),
        ("v1.2.3", ["v1", "2", "3", "v1.2.3"]),
        ("/usr/local/bin", ["usr", "local", "bin", "usr/local/bin"]),
        ("C++ C# C", ["c", "c++", "c", "c#", "c"]),
        ("50% @nasa #tag", ["50", "nasa", "tag"]),
        ("O’Brien's", ["o", "brien", "o'brien"]),
        ("__init__", ["init", "__init__"]),
    ],
)
def test_identifiers_give_their_parts_and_themselves(text, terms):
    """An identifier gives the terms of its parts, and itself as written but for case."""
    assert document_terms(text) == terms


@pytest.mark.parametrize(
    "text", ["", " ", "---", "_", "___", "'", "++++", '"', "*", "( ) [ ]", "😀", "👩‍💻🎉", "…", "゛・"]
)
def test_what_has_no_letter_and_no_digit_gives_no_term(text):
    """Punctuation and emoji alone give no terms: the keyword leg is empty, which is no error."""
    assert document_terms(text) == []
    assert query_terms(text).terms == ()


def test_similar_identifiers_stay_apart():
    """`C++` and `C#` share their letter only, so that each ranks its own memories first."""
    assert set(query_terms("C++").terms) & set(document_terms("C#")) == {"c"}


@pytest.mark.parametrize(
    ("question", "memory"),
    [
        ("東京", "我昨天去了東京"),
        ("京", "我昨天去了東京"),
        ("が", "りんごが好き"),
        ("ガイド", "ｶﾞｲﾄﾞ"),
        ("한국", "한국어를 배워요"),
        ("สวัสดี", "พูดว่าสวัสดีครับ"),
        ("भाषा", "हिन्दी भाषा।"),
        ("தமிழ்", "எனக்கு தமிழ் தெரியும்"),
        ("احمد", "قابلت أحمد أمس"),
        ("שלום", "שָׁלוֹם לכולם"),
        ("میخواهم", "می‌خواهم"),
        ("cafe", "the Café"),
        ("CAFÉ", "the cafe\u0301"),
        ("istanbul", "İstanbul"),
        ("strasse", "Straße"),
        ("fine", "ﬁne"),
        ("python", "Ｐｙｔｈｏｎ"),
        ("Lodz", "Łódź"),
        ("ёлка", "елка"),
        ("葛城", "葛\U000e0100城"),
        ("cooperate", "co\u00adoperate"),
        ("run", "running"),
        ("Which car did I buy?", "bought a car"),
        ("child", "three children"),
    ],
)
def test_spellings_of_one_word_find_each_other(question, memory):
    """Case, accents, marks, width, joiners and inflection do not hide a word."""
    assert finds(question, memory)
    assert len(question) == 1 or finds(memory, question)


@pytest.mark.parametrize(("question", "memory"), [("か", "が"), ("ハ", "バパ"), ("कि", "की")])
def test_marks_that_make_another_letter_count(question, memory):
    """Voiced kana and vowel signs are no accents: without them it is another word."""
    assert not finds(question, memory)


def test_indic_words_stay_whole():
    """A word with vowel signs is one term, and the full stop of Devanagari is no part of it."""
    assert document_terms("हिन्दी भाषा।") == ["हिन्दी", "भाषा"]


def test_accents_keep_their_exact_form():
    """A word with an accent is indexed with and without it, so that the exact spelling counts twice."""
    assert document_terms("café") == ["cafe", "café"]


def test_characters_alone_are_no_evidence():
    """Of a run without spaces a question asks for the pairs, of a single character for itself."""
    assert query_terms("東京都").terms == ("東京", "京都")
    assert query_terms("東").terms == ("東",)


def test_endings_after_an_apostrophe_are_no_words():
    """`'s`, `'m`, `'ve` and their like leave the word before them, with either apostrophe."""
    assert document_terms("I'm John's we’ve don't don’t") == ["i", "john", "we", "don't", "don't"]


def test_stop_words_of_a_question():
    """A question asks for its content words, and for its stop words only when there is nothing else."""
    assert query_terms("What did I say about my dog's diet last spring?").terms == (
        *("say", "about", "dog", "diet", "last", "spring"),
    )
    assert query_terms("the of").terms == ("the", "of")
    assert query_terms("don't").terms == ("don't",)
    assert query_terms("state-of-the-art").terms == ("state", "art", "state-of-the-art")


def test_acronyms_are_no_stop_words():
    """`US` and `IT` in capitals are content, unless the whole question is in capitals."""
    assert query_terms("the US economy").terms == ("us", "economi")
    assert query_terms("IS IT COLD").terms == ("cold",)


def test_stop_words_are_indexed():
    """A document keeps its stop words."""
    assert document_terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


def test_query_words_explain_terms():
    """Each term of a question comes with the word that it was made from."""
    query = query_terms("the running multi-agent")
    assert dict(zip(query.terms, query.words, strict=True)) == {
        "run": "running",
        "multi": "multi-agent",
        "agent": "multi-agent",
        "multi-agent": "multi-agent",
    }


def test_long_questions_are_cut():
    """Of a long text the first distinct terms count."""
    text = " ".join(f"w{n}" for n in range(20_000))
    assert query_terms(text).terms == tuple(f"w{n}" for n in range(64))
    assert query_terms(text, terms_max=3).terms == ("w0", "w1", "w2")


def test_memory_terms_are_speaker_key_content_and_date():
    """A memory is found by who said it, its key, its words, and the date it was created in either form."""
    created = datetime(2023, 5, 7, 13, 30, tzinfo=UTC)
    terms = memory_terms("likes tea", key="drink.favourite", metadata={"speaker": "Zoë"}, created_at=created)
    assert terms == [
        *("zoe", "zoë", "drink", "favourit", "drink.favourite", "like", "tea"),
        *("7", "may", "2023", "2023-05-07"),
    ]
    for question in ("Zoe", "drink.favourite", "tea", "on 7 May 2023", "2023-05-07"):
        assert set(query_terms(question).terms) & set(terms)


def test_memory_terms_without_extras():
    """A memory needs neither speaker nor key; a speaker that is no text is passed over."""
    early = datetime(1, 12, 31, tzinfo=UTC)
    terms = memory_terms("", key="", metadata={"speaker": 7, "other": "x"}, created_at=early)
    assert terms == ["31", "decemb", "1", "0001-12-31"]


def test_long_tokens_are_cut_alike():
    """Tokens longer than a term may be still find themselves."""
    assert query_terms("f" * 5000).terms == ("f" * TERM_LENGTH_MAX,)
    assert set(query_terms("a-" * 5000 + "b").terms) <= set(document_terms("x " + "a-" * 5000 + "b"))


@pytest.mark.parametrize(
    "piece",
    ["word ", *"a- a' a+ a# a.b aB aaA 's n't ' + _ @ 1. 東 東a क् e\u0301 \u0301 é- é’ \u200d ﷺ 😀".split()],
)
def test_time_is_linear(piece):
    """100 000 characters of anything take time in proportion to their number, not to its square."""
    text = (piece * 100_000)[:100_000]
    started = time.perf_counter()
    document_terms(text)
    query_terms(text)
    assert time.perf_counter() - started < 10


def test_threads_do_not_mix_words():
    """Stems are right when many threads analyse at once, although a stemmer keeps its word in itself."""
    words = ["".join(chr(97 + int(d)) for d in str(n)) + suffix for n in range(700) for suffix in ("ings", "ational")]
    stemmer = snowballstemmer.stemmer("english")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(document_terms, words))
    finally:
        sys.setswitchinterval(interval)
    assert found == [[stemmer.stemWord(word)] for word in words]


def test_import_brings_no_stemmer():
    """Importing the module does not import the stemmers, which only commands that read text need."""
    code = "import memspine.text, sys; sys.exit('snowballstemmer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("text", "folded"),
    [("Crème BRÛLÉE", "creme brulee"), ("ΆΛΦΑ", "αλφα"), ("Ёлка", "елка"), ("ガ", "ガ"), ("Æsir", "aesir"), ("x", "x")],
)
def test_fold(text, folded):
    """Folding removes case and the accents of letters, and leaves other marks alone."""
    assert fold(text) == folded


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("東京", 2), ("東京abc", 3), ("한국", 2), ("é" * 8, 2)],
)
def test_estimate_tokens(text, tokens):
    """A token is four characters, or one of a script without spaces; rounded up."""
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "stored", "noted"),
    [
        ("e\u0301", "é", ""),
        ("a\0b", "a\ufffdb", "NUL"),
        ("a\ud800b", "a\ufffdb", "lone"),
        ("\ud83d\ude00", "😀", "joined"),
    ],
)
def test_clean(text, stored, noted):
    """Text is made storable, and what had to be replaced for that is noted."""
    cleaned = clean(text)
    assert cleaned.text == stored
    assert noted in "".join(cleaned.notes)
    assert bool(cleaned.notes) == bool(noted)
