"""Small helpers for generated English: alternation patterns, articles, lists, numbers in words, typing noise.

Every random choice goes through a `random.Random` that the caller owns, so one seed replays a corpus.
"""

import itertools
import re

_ALTERNATION = re.compile(r"\[([^\[\]]*)\]")

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()


def expand(pattern: str) -> list[str]:
    """All strings of a pattern: "[hi|hello] there[!|]" gives four. Brackets do not nest."""
    pieces = _ALTERNATION.split(pattern)
    choices = [p.split("|") if i % 2 else [p] for i, p in enumerate(pieces)]
    return [tidy("".join(c)) for c in itertools.product(*choices)]


def realise(rng, pattern: str) -> str:
    """One random string of a pattern (see expand)."""
    return tidy(_ALTERNATION.sub(lambda m: rng.choice(m.group(1).split("|")), pattern))


def tidy(text: str) -> str:
    """Removes doubled spaces and spaces before punctuation that empty alternatives leave behind."""
    text = re.sub(r" {2,}", " ", text)
    return re.sub(r" ([,.?!])", r"\1", text).strip()


def a(noun: str) -> str:
    """The noun with its indefinite article; "some" before words that take none."""
    if noun.endswith("s") and not noun.endswith("ss") and noun.split()[-1] in PLURALS:
        return "some " + noun
    vowel = noun[:1].lower() in set("aeiou") and not noun.startswith(("uni", "use", "one"))
    return ("an " if vowel else "a ") + noun


PLURALS = {"boots", "mittens", "scissors", "stars", "glasses", "seeds", "marbles", "wings"}


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def join_and(items) -> str:
    """["a"] -> "a"; ["a", "b", "c"] -> "a, b and c"."""
    items = list(items)
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def number_words(value: int) -> str:
    """Integers below ten thousand in words: -7 -> "minus seven", 342 -> "three hundred and forty-two"."""
    if value < 0:
        return "minus " + number_words(-value)
    if value < 20:
        return ONES[value]
    if value < 100:
        return TENS[value // 10] + ("-" + ONES[value % 10] if value % 10 else "")
    big, unit, name = (value // 1000, 1000, "thousand") if value >= 1000 else (value // 100, 100, "hundred")
    rest = value % unit
    glue = " and " if rest and rest < 100 else " "
    return number_words(big) + " " + name + (glue + number_words(rest) if rest else "")


def typing_noise(rng, text: str, typos: bool = True) -> str:
    """What hurried people do: lower case, no closing punctuation, dropped apostrophes, a swapped or lost letter.

    Slips come first and only in lower-case words, so that names and numbers stay readable.
    """
    if typos and rng.random() < 0.5:
        text = " ".join(_mistype(rng, w) if rng.random() < 0.12 else w for w in text.split(" "))
    if rng.random() < 0.7:
        text = text.lower()
    if rng.random() < 0.7:
        text = text.rstrip("?.!")
    if rng.random() < 0.5:
        text = text.replace("'", "")
    if rng.random() < 0.15:
        text = text.replace(",", "")
    return text or "?"


def normal(text: str) -> str:
    """Lower case without punctuation: two questions with the same normal form count as the same wording."""
    return tidy(re.sub(r"[^a-z0-9]+", " ", text.lower().replace("'", "")))


def _mistype(rng, word: str) -> str:
    """One slip inside a plain word of five letters or more."""
    if len(word) < 5 or not word.isalpha() or not word.islower():
        return word
    i = rng.randrange(1, len(word) - 2)
    kind = rng.randrange(3)
    if kind == 0:
        return word[:i] + word[i + 1] + word[i] + word[i + 2:]
    if kind == 1:
        return word[:i] + word[i + 1:]
    return word[:i] + word[i] + word[i:]
