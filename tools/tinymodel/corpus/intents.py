"""Turns from tables of intents (weft_talk, small_talk): any question form, any answer form."""

from .small_talk import SMALL
from .split import held_out
from .talk import OPENERS
from .text import expand, normal, open_with, realise
from .weft_talk import WEFT

BOT_NAME = "weft-tiny"
_QUESTIONS = {name: sorted({q for pattern in intent[0] for q in expand(pattern)})
              for table in (WEFT, SMALL) for name, intent in table.items()}

def _hidden(opener: str, asked: str) -> bool:
    """Held out: combinations of opener and wording. A bare wording is never held out."""
    return bool(opener) and held_out("intent", opener, normal(asked))


def answer(talk, table: dict, name: str) -> str:
    rng = talk.rng
    forms = table[name][1]
    form = forms[0] if rng.random() < 0.75 else rng.choice(forms)
    user = f", {talk.user_name}" if talk.user_name and rng.random() < 0.6 else ""
    return realise(rng, form).replace("{n}", user).replace("{me}", talk.bot_name or BOT_NAME)


def turn(talk, table: dict, name: str | None = None) -> None:
    """One intent of the table that is not held out in this wording."""
    rng = talk.rng
    name = name or rng.choice(list(table))
    while True:
        asked = rng.choice(_QUESTIONS[name])
        opener = rng.choice(OPENERS) if rng.random() < 0.3 else ""
        if not _hidden(opener, asked):
            break
    talk.say(open_with(opener, asked) if opener else asked, answer(talk, table, name), name, plain=True)


def weft_turn(talk) -> None:
    turn(talk, WEFT)


def small_turn(talk) -> None:
    turn(talk, SMALL)


def held_out_cases(rng, table: dict, count: int) -> list[dict]:
    """Openers and wordings never seen together; a right reply holds one of the intent's key words."""
    pool = [(name, o, q) for name in table for q in _QUESTIONS[name] for o in OPENERS if _hidden(o, q)]
    return [{"messages": [["user", open_with(o, q)]], "any": list(table[name][2])}
            for name, o, q in rng.sample(pool, min(count, len(pool)))]
