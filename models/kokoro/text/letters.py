"""Letter rules: how an unknown English word is probably said. Every letter of it is heard or ruled.

One pass from left to right, the longest known group of letters first; one primary stress, before
the first vowel. The phonemes are those of the lexicon (A as in day, I as in my, O as in go, W as in
now, Y as in boy).
"""

from __future__ import annotations

VOWEL_LETTERS = frozenset("aeiouy")
VOWEL_PHONES = frozenset("AIOWYæɑəɛɪiʌɔuʊɜɚ")
SHORT = {"a": "æ", "e": "ɛ", "i": "ɪ", "o": "ɑ", "u": "ʌ", "y": "i"}
LONG = {"a": "A", "e": "i", "i": "I", "o": "O", "u": "ju", "y": "I"}
CONSONANTS = {
    **{letter: letter for letter in "bdfhklmnpstvwz"},
    "c": "k",
    "g": "ɡ",
    "j": "ʤ",
    "q": "k",
    "r": "ɹ",
    "x": "ks",
}
GROUPS = {
    "tion": "ʃən",
    "sion": "ʒən",
    "cious": "ʃəs",
    "tious": "ʃəs",
    "ture": "ʧəɹ",
    "ough": "O",
    "augh": "ɔ",
    "eigh": "A",
    "igh": "I",
    "tch": "ʧ",
    "dge": "ʤ",
    "dj": "ʤ",
    "sch": "ʃ",
    "eau": "O",
    "ear": "ɪɹ",
    "eer": "ɪɹ",
    "air": "ɛɹ",
    "our": "ɔɹ",
    "oor": "ɔɹ",
    "sh": "ʃ",
    "ch": "ʧ",
    "th": "θ",
    "ph": "f",
    "gh": "ɡ",
    "wh": "w",
    "ck": "k",
    "ng": "ŋ",
    "qu": "kw",
    "kh": "k",
    "zh": "ʒ",
    "ts": "ts",
    "ee": "i",
    "ea": "i",
    "oo": "u",
    "ou": "W",
    "ow": "W",
    "oi": "Y",
    "oy": "Y",
    "ai": "A",
    "ay": "A",
    "ei": "A",
    "ey": "A",
    "au": "ɔ",
    "aw": "ɔ",
    "ie": "i",
    "oa": "O",
    "ue": "u",
    "ew": "u",
    "ar": "ɑɹ",
    "er": "əɹ",
    "ir": "əɹ",
    "ur": "əɹ",
    "or": "ɔɹ",
}
AT_START = {"kn": "n", "gn": "n", "wr": "ɹ", "ps": "s", "pn": "n", "mn": "n", "x": "z"}
LONGEST_GROUP = max(map(len, GROUPS))


def pronounce(word: str) -> str:
    """Phonemes of a word of ASCII letters, in lower case."""
    phones: list[str] = []
    at = 0
    while at < len(word):
        taken, phone = _next(word, at)
        phones.append(phone)
        at += taken
    return _stressed("".join(phones))


def _next(word: str, at: int) -> tuple[int, str]:
    if at == 0:
        for start, phone in AT_START.items():
            if word.startswith(start) and len(word) > len(start):
                return len(start), phone
    for length in range(LONGEST_GROUP, 1, -1):
        phone = GROUPS.get(word[at : at + length], "")
        if phone and at + length <= len(word):
            return length, phone
    return _letter(word, at)


def _letter(word: str, at: int) -> tuple[int, str]:
    letter, following = word[at], word[at + 1 : at + 2]
    if letter == following and letter not in VOWEL_LETTERS:
        return 2, CONSONANTS[letter]
    if letter in "cg" and following and following in "eiy":
        return 1, "s" if letter == "c" else "ʤ"
    if letter == "y" and at == 0 and following and following in VOWEL_LETTERS:
        return 1, "j"
    if letter not in VOWEL_LETTERS:
        return 1, CONSONANTS.get(letter, "")
    if _silent(word, at):
        return 1, ""
    return 1, _vowel(word, at)


def _silent(word: str, at: int) -> bool:
    """A last e after a consonant, as in ride."""
    return (
        word[at] == "e"
        and at == len(word) - 1
        and len(word) > 2
        and word[at - 1] not in VOWEL_LETTERS
        and any(letter in VOWEL_LETTERS for letter in word[:at])
    )


def _vowel(word: str, at: int) -> str:
    letter = word[at]
    consonant, then = word[at + 1 : at + 2], word[at + 2 : at + 3]
    ride = consonant and consonant not in VOWEL_LETTERS and then == "e" and at + 3 == len(word)
    if ride or (at == len(word) - 1 and letter in "iou"):
        return {"i": "i", "u": "u"}.get(letter, LONG[letter]) if not ride else LONG[letter]
    if at == len(word) - 1 and letter == "a":
        return "ə"
    if letter == "y" and at == len(word) - 1 and not any(c in VOWEL_LETTERS for c in word[:at]):
        return "I"
    return "ɪ" if letter == "y" and at < len(word) - 1 else SHORT[letter]


def _stressed(phones: str) -> str:
    for place, phone in enumerate(phones):
        if phone in VOWEL_PHONES:
            return f"{phones[:place]}ˈ{phones[place:]}"
    return phones and f"ˈ{phones}"
