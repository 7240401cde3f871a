"""Puts turns together: single questions, short and long conversations, with follow-ups, memory and system prompts."""

from . import arithmetic, fact_inverse, fact_more, facts, intents, memory, outside, riddles, stories
from .talk import Talk


# turn maker -> how often it is drawn
TURNS = {
    facts.turn: 24, facts.yes_no_turn: 6, fact_inverse.turn: 12, fact_more.about_turn: 3, fact_more.hop_turn: 6,
    fact_more.overview_turn: 1, arithmetic.turn: 24, arithmetic.word_problem_turn: 3, arithmetic.counting_turn: 3,
    intents.weft_turn: 11, intents.small_turn: 13, riddles.joke_turn: 1.2, riddles.riddle_turn: 1.2, riddles.poem_turn: 1,
    riddles.likes_turn: 1.5, riddles.echo_turn: 3, riddles.spell_turn: 0.7, facts.compound_turn: 3,
    stories.turn: 5, outside.world_turn: 5, outside.stranger_turn: 5, outside.false_premise_turn: 2,
    memory.tell_name_turn: 2, memory.ask_name_turn: 1.5,
}
_MAKERS, _WEIGHTS = list(TURNS), list(TURNS.values())


def next_turn(talk) -> None:
    """A follow-up where the last turn invites one, else any turn."""
    rng = talk.rng
    if talk.asks_name:
        talk.asks_name = False
        intents.turn(talk, intents.SMALL, rng.choice(("who are you", "your name", "human")))
    elif talk.riddle:
        riddles.riddle_answer_turn(talk)
    elif talk.fact and rng.random() < 0.45:
        facts.follow_up(talk)
    elif talk.number is not None and -100 < talk.number < 200 and rng.random() < 0.3:
        arithmetic.follow_up(talk)
    elif talk.last == "joke" and rng.random() < 0.4:
        rng.choice((riddles.joke_turn, lambda t: intents.turn(t, intents.SMALL, "laugh")))(talk)
    elif talk.last == "story" and rng.random() < 0.3:
        intents.turn(talk, intents.SMALL, rng.choice(("compliment", "thanks")))
    else:
        rng.choices(_MAKERS, _WEIGHTS)[0](talk)


def _start(rng) -> Talk:
    talk = Talk(rng, noisy=rng.random() < 0.3)
    if rng.random() < 0.2:
        memory.system_prompt(talk)
    return talk


def single(rng) -> Talk:
    talk = _start(rng)
    next_turn(talk)
    return talk


def chat(rng, turns: int) -> Talk:
    """A conversation: often a greeting and a name first, sometimes thanks and goodbye at the end."""
    talk = _start(rng)
    if rng.random() < 0.35:
        intents.turn(talk, intents.SMALL, "hello")
    if rng.random() < 0.35:
        memory.tell_name_turn(talk)
    likes = memory.likes_pair(rng) if rng.random() < 0.12 else None
    if likes:
        talk.say(likes[0], likes[1], "likes")
    for _ in range(turns):
        next_turn(talk)
        if talk.user_name and rng.random() < 0.12:
            memory.ask_name_turn(talk)
    if likes:
        talk.say(likes[2], likes[3], "likes")
    if rng.random() < 0.3:
        intents.turn(talk, intents.SMALL, "thanks")
    if rng.random() < 0.3:
        intents.turn(talk, intents.SMALL, "bye")
    return talk


def follow_up_cases(rng, count: int) -> list[dict]:
    """"And what about ...?" after a fact: the second answer is checked, the first one is given."""
    cases = []
    while len(cases) < count:
        talk = Talk(rng)
        facts.turn(talk)
        if talk.fact[0] != "person":
            continue
        facts.follow_up(talk)
        _, subject, attribute = talk.fact
        cases.append({"messages": [list(m) for m in talk.messages[:3]], "want": [getattr(subject, attribute)], "avoid": []})
    return cases


def memory_cases(rng, count: int) -> list[dict]:
    """A name that training never shows, some turns of other talk, then the question for the name."""
    cases = []
    while len(cases) < count:
        talk = Talk(rng)
        memory.tell_name_turn(talk, wanted_held_out=True)
        for _ in range(rng.randrange(4)):
            next_turn(talk)
        name = talk.user_name
        memory.ask_name_turn(talk)
        if name == talk.user_name and not any(m[1].startswith("Once") for m in talk.messages):
            cases.append({"messages": [list(m) for m in talk.messages[:-1]], "want": [name], "avoid": []})
    return cases


def long_cases(rng, count: int) -> list[dict]:
    """Conversations of some 2,500 to 3,800 tokens: a name at the start is asked for at the very end."""
    cases = []
    while len(cases) < count:
        talk = Talk(rng)
        memory.tell_name_turn(talk)
        name = talk.user_name
        while sum(len(m[1]) for m in talk.messages) < 8500:
            next_turn(talk)
        memory.ask_name_turn(talk)
        if talk.user_name == name:
            cases.append({"messages": [list(m) for m in talk.messages[:-1]], "want": [name], "avoid": []})
    return cases
