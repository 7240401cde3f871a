"""Plain text without chat format, so that the model can also continue a text."""

from . import arithmetic, stories, world
from .facts import statement
from .fact_phrases import PERSON_TOPICS
from .portraits import portrait
from .riddles import JOKES
from .text import capital, number_words
from .weft_talk import WEFT


def _story(rng) -> str:
    return stories.tell(rng, stories.cast(rng))


def _encyclopedia(rng) -> str:
    people = rng.sample(world.PEOPLE, rng.randrange(1, 4))
    parts = [portrait(rng, "person", p) for p in people]
    if rng.random() < 0.5:
        parts.append(portrait(rng, "village", rng.choice(world.VILLAGES)))
    if rng.random() < 0.3:
        parts.append(portrait(rng, "creature", rng.choice(world.CREATURES)))
    rng.shuffle(parts)
    return "\n\n".join(parts)


def _sentences(rng) -> str:
    said = []
    for _ in range(rng.randrange(3, 9)):
        p, topic = rng.choice(world.PEOPLE), rng.choice(list(PERSON_TOPICS))
        said.append(capital(statement("person", p, topic)) + ".")
    return " ".join(said)


def _sums(rng) -> str:
    lines = []
    for _ in range(rng.randrange(4, 12)):
        op = rng.choice("+-*")
        a, b = arithmetic.draw(rng, op, rng.choice(("one", "two")) if op != "*" else "one")
        if not arithmetic.pair_held_out(a, op, b):
            lines.append(f"{a} {op} {b} = {arithmetic.result(a, op, b)}")
    return "\n".join(lines) or "1 + 1 = 2"


def _counting(rng) -> str:
    start, length = rng.randrange(0, 90), rng.randrange(5, 25)
    show = number_words if rng.random() < 0.3 else str
    return ", ".join(show(i) for i in range(start, start + length)) + "."


def _weft(rng) -> str:
    answers = [entry[1][0] for entry in rng.sample(list(WEFT.values()), rng.randrange(1, 5))]
    return " ".join(answers)


def _jokes(rng) -> str:
    return "\n".join(rng.sample(JOKES, rng.randrange(1, 4)))


def document(rng) -> str:
    kind = rng.choices((_story, _encyclopedia, _sentences, _sums, _counting, _weft, _jokes), (40, 15, 12, 14, 6, 8, 3))[0]
    return kind(rng)


def continuation_cases(rng, count: int) -> list[dict]:
    """Beginnings of sums and facts as plain text; the continuation must hold the value."""
    cases = []
    for _ in range(count):
        if rng.random() < 0.5:
            a, b = rng.randrange(10), rng.randrange(10)
            cases.append({"raw": f"{a} + {b} =", "want": [str(a + b)], "avoid": []})
        else:
            p = rng.choice(world.PEOPLE)
            cases.append({"raw": f"{p.name} lives in", "want": [p.village], "avoid": []})
    return cases
