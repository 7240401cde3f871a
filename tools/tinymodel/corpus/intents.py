"""Turns from tables of intents (weft_talk, small_talk): any question form, any answer form."""

from .small_talk import SMALL
from .split import held_out
from .text import expand, normal, realise
from .weft_talk import WEFT

BOT_NAME = "weft-tiny"
_QUESTIONS = {name: sorted({q for pattern in intent[0] for q in expand(pattern)})
              for table in (WEFT, SMALL) for name, intent in table.items()}
_ASIDE = ("", "", "", "", "", "", "Hi, ", "Hello, ", "One question: ", "I have a question. ", "Hey! ", "By the way, ",
          "Tell me, ", "Excuse me, ")


def _hidden(asked: str) -> bool:
    return held_out("intent", normal(asked), percent=10)


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
        if not _hidden(asked):
            break
    if table is WEFT and asked.endswith("?"):
        aside = rng.choice(_ASIDE)
        if aside[-2:] == ", " and not asked.startswith(("I ", "WebGPU")):
            asked = asked[0].lower() + asked[1:]
        asked = aside + asked
    talk.say(asked, answer(talk, table, name), name)


def weft_turn(talk) -> None:
    turn(talk, WEFT)


def small_turn(talk) -> None:
    turn(talk, SMALL)


def held_out_cases(rng, table: dict, count: int) -> list[dict]:
    """Wordings never seen in training; a right reply holds one of the intent's key words."""
    pool = [(name, q) for name in table for q in _QUESTIONS[name] if _hidden(q)]
    return [{"messages": [["user", q]], "any": list(table[name][2])}
            for name, q in rng.sample(pool, min(count, len(pool)))]
