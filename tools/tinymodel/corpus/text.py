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


# First words that keep their capital after an opener.
_KEEP = {"I", "I'm", "WebGPU", "Loomvale", "Python"}


def open_with(opener: str, question: str) -> str:
    """Puts "Okay, " or "Nice! " before a question; after a comma the question goes on in lower case, names aside."""
    first = question.split(" ")[0]
    plain_word = first.rstrip("?.!,") in OPENING_WORDS and first not in _KEEP
    if not opener.endswith((". ", "! ")) and plain_word:
        question = question[0].lower() + question[1:]
    return opener + question


OPENING_WORDS = set(
    "What What's Where Where's Who Who's Whose Which When Why How How's Is Are Am Do Does Did Can Could Will Would Should Tell "
    "Please Describe Explain Name List Give Show Write Make Say Count Add Subtract Take Multiply Divide Double Calculate Compute "
    "Solve Sum Remind Have Has Another One More There My The That This You Your Make Ask Let Draw Open Order Play Call Help It "
    "Your Read In On And If Not Nothing Yes No Quick In People Repeat Spell".split()
)

_CONTRACTIONS = (
    ("What is", "What's"), ("Who is", "Who's"), ("Where is", "Where's"), ("I am", "I'm"), ("do not", "don't"), ("cannot", "can't"),
    ("It is", "It's"), ("I would", "I'd"), ("How is", "How's"), ("does not", "doesn't"), ("That is", "That's"),
)


def swap_contractions(text: str) -> str:
    """Long forms become short ones, and short ones long."""
    for long, short in _CONTRACTIONS:
        if re.search(rf"\b{long}\b", text):
            text = re.sub(rf"\b{long}\b", short, text)
        elif short in text:
            text = text.replace(short, long)
    return text


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
