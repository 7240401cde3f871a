"""Sums, differences and products, in digits and in words, asked in many ways; larger products are worked out in steps.

Held out are combinations of phrasing and operands and, for two-digit sums, differences and products, also whole pairs of
operands: those pairs occur nowhere in training, in either order.
"""

from . import world
from .split import held_out
from .text import capital, number_words

_SYMBOL = {"+": ("+", "plus"), "-": ("-", "minus"), "*": ("*", "times")}

# {a}, {b}: operands; {op}: symbol or word to match.
_ANY = (
    "What is {a} {op} {b}?", "{a} {op} {b}", "{a} {op} {b} = ?", "{a} {op} {b}?", "How much is {a} {op} {b}?",
    "What's {a} {op} {b}?", "Calculate {a} {op} {b}.", "Can you tell me what {a} {op} {b} is?", "Compute {a} {op} {b}.",
    "Please work out {a} {op} {b}.", "What does {a} {op} {b} make?", "{a} {op} {b} is what?", "Tell me {a} {op} {b}.",
    "Do you know what {a} {op} {b} is?", "{a} {op} {b} =", "What do you get for {a} {op} {b}?", "Solve {a} {op} {b}.",
    "I need the answer to {a} {op} {b}.", "Quick, {a} {op} {b}!", "Could you work out {a} {op} {b} for me?",
)
_OWN = {
    "+": ("Add {a} and {b}.", "What is the sum of {a} and {b}?", "What do {a} and {b} make together?",
          "How much is {a} and {b}?", "If I add {b} to {a}, what do I get?", "Sum {a} and {b}."),
    "-": ("Subtract {b} from {a}.", "Take {b} away from {a}.", "What is {a} take away {b}?",
          "What is the difference between {a} and {b}?", "What is left if I take {b} from {a}?", "What is {a} less {b}?"),
    "*": ("Multiply {a} by {b}.", "What is the product of {a} and {b}?", "What is {a} multiplied by {b}?",
          "How much is {a} x {b}?", "What do I get if I multiply {a} by {b}?", "{a} x {b}"),
}
PHRASINGS = {op: _ANY + _OWN[op] for op in "+-*"}


def result(a: int, op: str, b: int) -> int:
    return a + b if op == "+" else a - b if op == "-" else a * b


def pair_held_out(a: int, op: str, b: int) -> bool:
    """Whole operand pairs that training never shows: sums and differences beyond the tables, products of two two-digit
    factors that do not occur as a step of a worked product."""
    if a == b or (op == "*" and (min(a, b) < 11 or a % 10 == 0 or b % 10 == 0)):
        return False
    return max(a, b) > 12 and held_out("pair", op, min(a, b), max(a, b), percent=5)


def _last_step_held_out(a: int, b: int) -> bool:
    """The sum that ends a worked product is itself a held-out pair."""
    if max(a, b) <= 12:
        return False
    big, small = (b, a) if min(a, b) >= 10 else (max(a, b), min(a, b))
    return pair_held_out(small * (big // 10 * 10), "+", small * (big % 10))


def draw(rng, op: str, size: str) -> tuple[int, int]:
    """Operands of a size class: "one" 0-9, "two" with at least one of 10-99, "three" with at least one of 100-999,
    "four" as the last step of worked products needs them."""
    if size == "one":
        return rng.randrange(10), rng.randrange(10)
    if size == "four":
        return rng.randrange(100, 10000), rng.randrange(10, 1000)
    if size == "three":
        a, b = rng.randrange(100, 1000), rng.choice((rng.randrange(100, 1000), rng.randrange(1, 100)))
        return (max(a, b), min(a, b)) if op == "-" and rng.random() < 0.8 else (a, b)
    if op == "*":
        a, b = rng.choice((
            (rng.randrange(2, 13), rng.randrange(2, 13)), (rng.randrange(10, 100), rng.randrange(2, 10)),
            (rng.randrange(2, 10), rng.randrange(10, 100)), (rng.randrange(11, 100), rng.randrange(11, 100))))
        return a, b
    a, b = rng.randrange(10, 100), rng.randrange(10, 100)
    if rng.random() < 0.25:
        a, b = (a, rng.randrange(10)) if rng.random() < 0.6 else (rng.randrange(10), b)
    if op == "-" and a < b and rng.random() < 0.7:
        a, b = b, a
    return a, b


def product_steps(a: int, b: int) -> str:
    """Worked reply for products beyond 12 x 12: split one factor into tens and ones, then add."""
    big, small = (b, a) if min(a, b) >= 10 else (max(a, b), min(a, b))
    tens, ones = big // 10 * 10, big % 10
    if ones == 0 or small < 2:
        return f"{a} * {b} = {a * b}."
    return (f"{small} * {tens} = {small * tens} and {small} * {ones} = {small * ones}. {small * tens} + {small * ones} = "
            f"{a * b}, so {a} * {b} = {a * b}.")


def reply(rng, a: int, op: str, b: int, words: bool, brief: bool = False) -> str:
    show = number_words if words else str
    if brief:
        return capital(show(result(a, op, b))) + "."
    if op == "*" and max(a, b) > 12:
        return product_steps(a, b)
    sign = _SYMBOL[op][1 if words else 0]
    form = "{a} {sign} {b} is {r}." if words else "{a} {sign} {b} = {r}."
    if rng.random() < 0.15:
        form = rng.choice(("That is {r}.", "The answer is {r}.", "It is {r}."))
    return capital(form.format(a=show(a), b=show(b), sign=sign, r=show(result(a, op, b))))


def ask(rng, a: int, op: str, b: int, index: int, words: bool) -> str:
    show = number_words if words else str
    symbol = _SYMBOL[op][1] if words or rng.random() < 0.35 else rng.choice(("*", "x")) if op == "*" else op
    text = PHRASINGS[op][index].format(a=show(a), b=show(b), op=symbol)
    if not words and symbol == op and rng.random() < 0.15:
        text = text.replace(f" {op} ", op)
    return capital(text)


def _case(rng, size: str, op: str, wanted_held_out: bool):
    """Operands, phrasing and form of one question on the wanted side of the split."""
    while True:
        a, b = draw(rng, op, size)
        words = rng.random() < 0.25 and result(a, op, b) < 1000 and (op != "*" or max(a, b) <= 12)
        index = rng.randrange(len(PHRASINGS[op]))
        combination = held_out("arithmetic", a, op, b, index, words)
        hidden = pair_held_out(a, op, b)
        if wanted_held_out:
            if combination if size == "one" else hidden:
                return a, b, index, words
        elif not combination and not hidden and not (op == "*" and _last_step_held_out(a, b)):
            return a, b, index, words


def turn(talk) -> None:
    rng = talk.rng
    size = rng.choices(("one", "two", "three", "four"), (28, 54, 14, 4))[0]
    op = "+" if size == "four" else rng.choice("+-") if size == "three" else rng.choice("++--**")
    a, b, index, words = _case(rng, size, op, False)
    talk.say(ask(rng, a, op, b, index, words), reply(rng, a, op, b, words, talk.brief), "arithmetic")
    talk.number = result(a, op, b)


def follow_up(talk) -> None:
    """ "And plus 3?" continues from the last result. """
    rng, first = talk.rng, talk.number
    op = rng.choice("+-")
    while True:
        second = rng.randrange(1, 10) if rng.random() < 0.6 else rng.randrange(10, 100)
        if not pair_held_out(first, op, second):
            break
    if not -100 < first < 200:
        return
    word = _SYMBOL[op][rng.randrange(2)]
    asked = rng.choice(("And {} {}?", "And now {} {}?", "{} {}?", "And {} {}", "Now {} {}.")).format(word, second)
    talk.say(capital(asked), reply(rng, first, op, second, False, talk.brief), "arithmetic")
    talk.number = result(first, op, second)


_THINGS = "apples,marbles,stones,shells,buttons,kites,books,candles,nuts,biscuits,carrots,feathers,pears,coins".split(",")


def word_problem(rng):
    """A two-sentence problem with people of Loomvale. Returns question, reply and result."""
    p = rng.choice(world.PEOPLE)
    friend, thing = world.PERSON[p.friend], rng.choice(_THINGS)
    limit = 10 if rng.random() < 0.5 else 50
    while True:
        a, b = rng.randrange(2, limit), rng.randrange(1, limit)
        if a > b and not pair_held_out(a, "+", b) and not pair_held_out(a, "-", b):
            break
    op, text = rng.choice((
        ("+", "{p} has {a} {t} and gets {b} more. How many {t} does {p} have now?"),
        ("+", "{p} has {a} {t} and {f} has {b}. How many {t} do they have together?"),
        ("+", "{p} finds {a} {t} in the morning and {b} in the evening. How many is that?"),
        ("-", "{p} has {a} {t} and gives {b} to {f}. How many {t} are left?"),
        ("-", "There are {a} {t} on the table. {p} takes {b}. How many {t} are left?"),
        ("-", "{p} has {a} {t} but loses {b} of them. How many {t} does {p} still have?"),
    ))
    r = result(a, op, b)
    thing_now = thing[:-1] if r == 1 else thing
    asked = text.format(p=p.name, f=friend.name, a=a, b=b, t=thing)
    return asked, f"{a} {op} {b} = {r}, so the answer is {r} {thing_now}.", r


def word_problem_turn(talk) -> None:
    asked, said, number = word_problem(talk.rng)
    talk.say(asked, said, "arithmetic")
    talk.number = number


def counting_turn(talk) -> None:
    """Order of numbers: next, previous, bigger, smaller, even or odd, counting, doubling, dividing; too big numbers."""
    rng = talk.rng
    if rng.random() < 0.35:
        asked, said = _division(rng) if rng.random() < 0.7 else _too_big(rng)
        talk.say(asked, said, "count")
        return
    n, m = rng.randrange(0, 100), rng.randrange(0, 100)
    small, large = min(n, m), max(n, m)
    start = rng.randrange(0, 20)
    row = ", ".join(str(i) for i in range(start, start + 10))
    asked, said = rng.choice((
        ("What comes after {n}?", f"After {n} comes {n + 1}."), ("Which number comes before {n}?", f"Before {n} comes {n - 1}."),
        ("Which is bigger, {n} or {m}?", f"{large} is bigger than {small}." if n != m else f"Both are {n}."),
        ("Which number is smaller, {n} or {m}?", f"{small} is smaller than {large}." if n != m else f"Both are {n}."),
        ("Is {n} even or odd?", f"{n} is {'odd' if n % 2 else 'even'}."),
        ("Is {n} an even number?", f"{'No' if n % 2 else 'Yes'}, {n} is {'odd' if n % 2 else 'even'}."),
        ("What is twice {n}?", f"Twice {n} is {2 * n}."), ("Double {n}.", f"Twice {n} is {2 * n}."),
        (f"Count from {start} to {start + 9}.", row + "."), (f"Count ten numbers up from {start}.", row + "."),
        ("How do you write {n} in words?", capital(number_words(n)) + "."), ("Write {n} as a word.", capital(number_words(n)) + "."),
        (f"Write {number_words(n)} in digits.", f"{n}."),
    ))
    talk.say(asked.format(n=n, m=m), said, "count")


def _division(rng):
    b = rng.randrange(1, 11)
    a = b * rng.randrange(0, 11) + (rng.randrange(b) if rng.random() < 0.4 else 0)
    asked = rng.choice(("What is {a} divided by {b}?", "{a} / {b}", "Divide {a} by {b}.", "How much is {a} / {b}?",
                        "{a} divided by {b}", "What's {a} / {b}?")).format(a=a, b=b)
    rest = f", with {a % b} left over" if a % b else ""
    return asked, f"{a} divided by {b} is {a // b}{rest}."


def _too_big(rng):
    a, b = rng.randrange(10000, 10 ** rng.randrange(5, 9)), rng.randrange(100, 10 ** rng.randrange(3, 8))
    op = rng.choice(("+", "-", "*", "/", "times", "plus", "minus"))
    asked = PHRASINGS["+"][rng.randrange(len(_ANY))].format(a=a, b=b, op=op)
    return asked, ("Those numbers are too big for me. I am good with numbers up to one hundred, and fairly good up to "
                   "one thousand.")


def held_out_cases(rng, size: str, op: str, count: int) -> list[dict]:
    """Questions on the held-out side; the last number of the reply must be the result."""
    cases = []
    for _ in range(count):
        a, b, index, words = _case(rng, size, op, True)
        cases.append({"messages": [["user", ask(rng, a, op, b, index, words)]],
                      "number": result(a, op, b), "words": number_words(result(a, op, b))})
    return cases
