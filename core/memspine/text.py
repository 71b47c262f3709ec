"""Text analysis shared by every keyword index: pure functions from text to index terms.

A *term* is what an index stores and a query asks for. `document_terms` and `query_terms` use the same analysis, so a
store needs no tokenizer of its own: it keeps the terms as they come and never sees user text as query syntax. A term
is never empty and holds no white space and no control character.

Analysis of one text:

1. NFC, then words: runs of letters, digits and the marks on them. Identifiers (`C++`, `user@example.org`,
   `multi-agent`, `snake_case`, `getUserName`, `v1.2.3`) give their parts and the identifier as written, folded. What
   has no letter and no digit (`---`, `_`, emoji) gives no term.
2. Compatibility forms (full-width letters, half-width kana, ligatures) become what they stand for; English endings
   after an apostrophe (`it's`, `we've`) are taken off; joiners and other characters that nobody sees are left out.
3. Folding: case-folded; accents of Latin, Greek and Cyrillic letters and points of Hebrew and Arabic ones removed. A
   word that had some also keeps its exact form, so that `café` finds `cafe` and ranks `café` first.
4. Stems: Snowball English for plain ASCII words, after common irregular forms (`bought`, `children`).
5. Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean, whose endings are written
   together with the word: single characters and pairs.
6. Stop words (English) are left out of documents never, of queries unless nothing else is left.
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

import attrs

ANALYSIS_VERSION = 1
"""Raised when the same text yields other terms than before: an index built by another version has to be rebuilt."""

TERMS_MAX = 64
"""The most terms of one question."""

TERM_LENGTH_MAX = 64
"""Longer terms are cut to this many characters: they are hashes and blobs, and cutting keeps equal ones equal."""

_QUESTION_MARKS = frozenset("?？؟⁇⁈՞፧߹")

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NUL = "\0"

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1100-\u11ff"  # Hangul Jamo
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"  # kana without its punctuation
    "\u3100-\u312f\u3130-\u318f\u31f0-\u31ff"  # bopomofo, Hangul compatibility, small kana
    "\u3400-\u4dbf\u4e00-\u9fff"  # Han
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\uf900-\ufaff\uff66-\uff9f"  # compatibility forms
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"  # kana supplement, Han extensions
)
# Vowel signs and other marks, which `\w` leaves out and without which Indic words fall to pieces. The ranges run on
# over letters and digits between the marks, never over punctuation.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # general, Cyrillic, Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed"  # Arabic
    "\u0711-\u07f3\u07fd\u0816-\u082d\u0859-\u085b\u0898-\u08e1\u08e3-\u0963"  # Syriac … Devanagari
    "\u0981-\u09e3\u09fe-\u0a75\u0a81-\u0ae3\u0afa-\u0b63\u0b82-\u0bd7\u0c00-\u0c63"  # Bengali … Telugu
    "\u0c81-\u0c83\u0cbc-\u0d4d\u0d57-\u0d63\u0d81-\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39"  # Kannada … Sinhala
    "\u0f3e-\u0f84\u0f86-\u0fbc\u135d-\u135f\u1712-\u1734\u1752-\u1773\u18a9\u1920-\u193b"  # Tibetan …
    "\u1a17-\u1a1b\u1a55-\u1a7f\u1ab0-\u1b44\u1b6b-\u1b73\u1b80-\u1bf3\u1c24-\u1c37"
    "\u1cd0-\u1cd2\u1cd4-\u1cf9\u1dc0-\u1dff\u302a-\u302f\u3099\u309a\ua66f\ua674-\ua67d"
    "\ua802-\ua827\ua880-\ua8c5\ua8e0-\ua8f1\ua926-\ua92d\ua947-\ua953\ua980-\ua9c0\uaa29-\uaa36\uaaeb-\uaaef"
    "\uabe3-\uabea\ufe20-\ufe2f\U00011000-\U00011046\U00011070-\U000110ba\U00011100-\U00011134\U0001e8d0-\U0001e94a"
)
# Soft hyphen, joiners, marks of direction, variation selectors, the Arabic stretcher: nobody types them into a search.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u0640\u200c-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]+"
)
# A word may hold joiners inside (`.`, `-`, `@`, `'` …) and end in `++` or `#`, so that C++ and C# stay apart. Every
# repetition begins with a character that the one before it cannot end with: the time is linear for any text.
_LETTERS = rf"[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
_TOKEN = rf"[{_UNSPACED}]+|{_LETTERS}(?:[-.@/:'’&+#]{_LETTERS})*(?:\+\+|\#)?"
_ASCII_TOKEN = re.compile(r"\w+(?:[-.@/:'&+#]\w+)*(?:\+\+|\#)?", re.ASCII)
_UNSPACED_RUN = f"[{_UNSPACED}]+"
_PART = re.compile(rf"[^\W_]+(?:[{_MARKS}]+[^\W_]*)*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDING = re.compile(r"'(?:s|m|d|re|ve|ll)$", re.IGNORECASE)
_PLAIN = re.compile(r"[a-z]+")
# Letters that Unicode does not take apart, and that many keyboards lack.
_BARE = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)

# Words that carry grammar and no subject: articles, pronouns, question words, auxiliaries, the commonest prepositions.
_STOP_WORDS = frozenset(
    "a am an and any are as at be been being but by can could did do does doing for from had has have having he her "
    "hers herself him himself his how i if in into is it its itself many me much my myself of on or our ours ourselves "
    "she should so some such than that the their theirs them themselves then there these they this those to us was we "
    "were what when where which while who whom whose why will with would you your yours yourself yourselves".split()
)
# Forms that no stemmer finds, after their base form; without those that are as often another word (rose, saw, lives).
_IRREGULAR = {
    form: forms.split()[0]
    for forms in (
        "become became,begin began begun,break broke broken,bring brought,build built,buy bought,catch caught,"
        "child children,choose chose chosen,come came,draw drew drawn,drink drank drunk,drive drove driven,"
        "eat ate eaten,fall fell fallen,feed fed,feel felt,fight fought,find found,fly flew flown,foot feet,"
        "forget forgot forgotten,forgive forgave forgiven,freeze froze frozen,get got gotten,give gave given,"
        "go went gone,grow grew grown,hang hung,hear heard,hide hid hidden,hold held,keep kept,knife knives,"
        "know knew known,lead led,leave left,lend lent,lose lost,make made,man men,mean meant,"
        "meet met,mouse mice,pay paid,ride rode ridden,run ran,say said,see seen,sell sold,send sent,"
        "shake shook shaken,shelf shelves,shoot shot,show shown,sing sang sung,sit sat,sleep slept,speak spoke spoken,"
        "spend spent,stand stood,steal stole stolen,swim swam swum,take took taken,teach taught,tell told,"
        "think thought,throw threw thrown,tooth teeth,understand understood,wake woke woken,wear wore worn,wife wives,"
        "win won,woman women,write wrote written"
    ).split(",")
    for form in forms.split()[1:]
}
_MONTHS = "january february march april may june july august september october november december".split()


@attrs.frozen
class CleanText:
    """Text that can be stored, and what was done to make it so (empty when nothing was)."""

    text: str
    notes: tuple[str, ...] = ()


def clean(text: str) -> CleanText:
    """Normalise to NFC; NUL and lone surrogates become U+FFFD, each kind noted."""
    notes = []
    if _NUL in text:
        notes.append(f"{text.count(_NUL)} NUL character(s) replaced by U+FFFD")
        text = text.replace(_NUL, _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        # A surrogate pair that arrived as two halves is the character it spells; only what stays alone is replaced.
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        notes.append("lone surrogate(s) replaced by U+FFFD" if _REPLACEMENT in joined else "surrogate pairs joined")
        text = joined
    return CleanText(unicodedata.normalize("NFC", text), tuple(notes))


def document_terms(*texts: str) -> list[str]:
    """All index terms of texts, in reading order, repeated as often as they occur."""
    terms: list[str] = []
    for text in texts:
        # No token holds white space: what stands between it is analysed once and then looked up.
        chunks = text.split()
        is_short = max(map(len, chunks), default=0) <= TERM_LENGTH_MAX
        terms.extend(itertools.chain.from_iterable(map(_short_chunk_terms if is_short else _chunk_terms, chunks)))
    return terms


def memory_terms(content: str, *, key: str, metadata: Mapping[str, Any], created_at: datetime) -> list[str]:
    """What a keyword index stores of a memory: the terms of its speaker (`metadata["speaker"]`), its key, its content
    and the date it was created, as people write it (day, English month, year) and as ISO 8601 does.

    The length of the list is the memory's length for ranking.
    """
    terms = document_terms(speaker_of(metadata), key, content)
    terms.extend(_date_terms(created_at.date()))
    return terms


def speaker_of(metadata: Mapping[str, Any]) -> str:
    """Who said a memory's content: `metadata["speaker"]`, empty where it is no text."""
    speaker = metadata.get("speaker")
    return speaker if isinstance(speaker, str) else ""


def speaker_terms(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The terms of the speaker's name."""
    return frozenset(document_terms(speaker_of(metadata)))


def asks(content: str) -> bool:
    """Whether a text ends by asking something, by the question mark of any script."""
    return content.rstrip()[-1:] in _QUESTION_MARKS


def without_words(text: str, words: Iterable[str]) -> str:
    """The text without these words, however they are capitalised; the text itself where nothing else is in it."""
    kept = text
    for word in words:
        kept = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", "", kept, flags=re.IGNORECASE)
    kept = " ".join(kept.split())
    return kept if re.search(r"\w", kept) else text


@attrs.frozen
class QueryTerms:
    """A question as index terms: distinct, in reading order, with the word each came from.

    `words[i]` is the text behind `terms[i]`, for explaining a hit to a person.
    """

    terms: tuple[str, ...]
    words: tuple[str, ...]


def query_terms(text: str, *, terms_max: int = TERMS_MAX) -> QueryTerms:
    """The content words of a question as terms; its stop words only if there is nothing else.

    Of a longer text the first `terms_max` distinct terms count.
    """
    content: dict[str, str] = {}
    stopped: dict[str, str] = {}
    shouted = text.isupper()
    for token in _tokens(text):
        if len(content) >= terms_max:
            break
        terms = _token_terms(token)
        if len(token) > 1 and _is_unspaced(token):
            terms = tuple(term for term in terms if len(term) > 1)  # a character alone is no evidence for a word
        acronym = len(token) > 1 and token.isupper() and not shouted  # US, IT, WHO
        target = stopped if not acronym and _is_stop_word(token) else content
        for term in terms:
            # Of `state-of-the-art` only the small words are stopped.
            (stopped if len(terms) > 1 and term in _STOP_WORDS else target).setdefault(term, token)
    chosen = list((content or stopped).items())[:terms_max]
    return QueryTerms(tuple(term for term, _ in chosen), tuple(word for _, word in chosen))


def fold(text: str) -> str:
    """Case-folded text without accents on Latin, Greek and Cyrillic letters and points on Hebrew and Arabic ones."""
    folded = text.casefold()
    if folded.isascii():
        return folded
    kept = []
    base = ""
    for character in unicodedata.normalize("NFD", folded):
        if unicodedata.combining(character):
            if base < "\u0700":  # beyond Arabic, marks are no ornament: voiced kana, vowel signs
                continue
        else:
            base = character
        kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept)).translate(_BARE)


def estimate_tokens(text: str) -> int:
    """How many tokens a model will see in `text`: a quarter of the characters, one for each character of Chinese,
    Japanese, Korean and the other scripts without spaces; rounded up."""
    unspaced = 0 if text.isascii() else sum(map(len, _pattern(_UNSPACED_RUN).findall(text)))
    return unspaced + -(-(len(text) - unspaced) // 4)


TokenCounter = Callable[[str], int]
"""Counts the tokens of a text; `estimate_tokens` is the default."""


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    return _pattern(_TOKEN).findall(_UNSEEN.sub("", unicodedata.normalize("NFC", text)))


@functools.cache
def _pattern(expression: str) -> re.Pattern[str]:
    # Compiled on use: these large sets take as long as the rest of the module, and plain ASCII needs none of them.
    return re.compile(expression)


def _is_unspaced(token: str) -> bool:
    return not token.isascii() and _pattern(_UNSPACED_RUN).match(token) is not None


def _plain(token: str) -> str:
    """The token with one kind of apostrophe, no compatibility forms and no ending like that of `it's`."""
    if not token.isascii():
        token = "".join(unicodedata.normalize("NFKC", token).replace("’", "'").split())
    return _ENDING.sub("", token)


def _is_stop_word(token: str) -> bool:
    word = _plain(token).casefold()
    return word in _STOP_WORDS or word.endswith("n't")


def _token_terms(token: str) -> tuple[str, ...]:
    return _short_token_terms(token) if len(token) <= TERM_LENGTH_MAX else _terms(token)


def _terms(token: str) -> tuple[str, ...]:
    """The terms of one token: of an identifier its parts and itself, of a run without spaces characters and pairs."""
    if token.isascii() and token.isalnum() and (token.islower() or token[1:].islower() or token.isdigit()):
        return _word_terms(token)  # a plain word or number: no joiner, no ending, no hump
    token = _plain(token)
    if _is_unspaced(token):
        return (*token, *map("".join, itertools.pairwise(token)))
    whole = fold(token)[:TERM_LENGTH_MAX]
    if whole.endswith("n't"):
        return (whole,)
    parts = [hump for part in _PART.findall(token) for hump in _HUMP.split(part)]
    if len(parts) == 1 and parts[0] == token:
        return _word_terms(token)
    terms = [term for part in parts for term in _word_terms(part)]
    return tuple(dict.fromkeys((*terms, whole))) if terms else ()


def _chunk_terms(chunk: str) -> tuple[str, ...]:
    if chunk.isascii() and chunk.isalnum():
        return _token_terms(chunk)  # one token, as it stands
    return tuple(term for token in _tokens(chunk) for term in _token_terms(token))


# Cached because words repeat: it is what makes analysis cheap in bulk. Long ones are not kept.
_short_token_terms = functools.lru_cache(maxsize=1 << 15)(_terms)
_short_chunk_terms = functools.lru_cache(maxsize=1 << 15)(_chunk_terms)


@functools.lru_cache(maxsize=1 << 14)
def _word_terms(word: str) -> tuple[str, ...]:
    exact = word.casefold()[:TERM_LENGTH_MAX]
    folded = fold(exact)[:TERM_LENGTH_MAX]
    term = _stem(folded) if _PLAIN.fullmatch(folded) else folded
    return (term,) if folded == exact else (term, exact)


@functools.lru_cache(maxsize=1 << 12)
def _date_terms(day: date) -> tuple[str, ...]:
    return (str(day.day), *_word_terms(_MONTHS[day.month - 1]), str(day.year), day.isoformat())


def _stem(word: str) -> str:
    stemmer = _stemmer()
    with _STEMMING:
        stem: str = stemmer(_IRREGULAR.get(word, word))
    return stem


_STEMMING = threading.Lock()
"""A stemmer keeps the word that it works on in itself, and analysis runs in any thread."""


@functools.cache
def _stemmer() -> Callable[[str], str]:
    # Imported on use: the package brings every language it knows, and commands that read no text need none. By its
    # class: the package's own function prefers another implementation where that is installed.
    from snowballstemmer.english_stemmer import EnglishStemmer

    stem: Callable[[str], str] = EnglishStemmer().stemWord
    return stem
