"""Facts of Loomvale asked forward: subject and attribute given, value wanted; also yes-no questions and follow-ups."""

from . import world
from .fact_phrases import CREATURE_TOPICS, PERSON_TOPICS, VILLAGE_TOPICS
from .portraits import portrait
from .split import held_out
from .text import a, capital, join_and

_TOPICS = {"person": PERSON_TOPICS, "village": VILLAGE_TOPICS, "creature": CREATURE_TOPICS}
_PHRASINGS = {k: {t: topic.phrasings() for t, topic in v.items()} for k, v in _TOPICS.items()}
_SUBJECTS = {"person": world.PEOPLE, "village": world.VILLAGES, "creature": world.CREATURES}
_PLURALS = {"moss hare": "moss hares", "tidefox": "tidefoxes", "cloudsheep": "cloudsheep", "sparkfish": "sparkfish"}


def slots(kind: str, subject, attribute: str, value: str, pronoun: bool = False) -> dict:
    """Values of all slots for one fact; with `pronoun` the subject is "she", "he" or "it"."""
    out = {"p": subject.name, "s": subject.name + "'s", "o": subject.name, "x": value, "ax": a(value), "s2": "its"}
    if kind == "person":
        out |= {"kind": subject.pet_kind, "name": subject.pet_name, "home": subject.village, "s2": subject.possessive}
        if pronoun:
            out |= {"p": subject.pronoun, "s": subject.possessive, "o": subject.objective}
    if kind == "creature":
        plural = _PLURALS.get(subject.name, subject.name + "s")
        out |= {"ap": a(subject.name), "plural": plural}
    return out


def statement(kind: str, subject, attribute: str, value: str | None = None, pronoun: bool = False) -> str:
    """The fact as a clause without full stop: "Mira lives in Spindle Green"."""
    value = value or getattr(subject, attribute)
    return _TOPICS[kind][attribute].statement.format(**slots(kind, subject, attribute, value, pronoun))


def question(kind, subject, attribute, index, pronoun=False) -> str:
    fact = slots(kind, subject, attribute, getattr(subject, attribute), pronoun)
    return capital(_PHRASINGS[kind][attribute][index].format(**fact))


def answer(rng, kind, subject, attribute, brief=False) -> str:
    """The reply; most often the topic's first form, sometimes with one more fact so that talk does not get stiff."""
    value = getattr(subject, attribute)
    if brief:
        return capital(value) + "."
    forms = _TOPICS[kind][attribute].answers
    form = forms[0] if rng.random() < 0.7 else rng.choice(forms)
    reply = capital(form.format(**slots(kind, subject, attribute, value)))
    if kind == "person" and rng.random() < 0.12:
        other = rng.choice([t for t in PERSON_TOPICS if t[:3] != attribute[:3]])
        reply += " " + capital(statement(kind, subject, other, pronoun=True)) + "."
    return reply


def key(kind, subject, attribute, index):
    return ("fact", kind, subject.name, attribute, index)


def turn(talk) -> None:
    """One forward question that is not held out."""
    rng = talk.rng
    kind = rng.choices(("person", "village", "creature"), (8, 2, 1))[0]
    while True:
        subject, attribute = rng.choice(_SUBJECTS[kind]), rng.choice(list(_TOPICS[kind]))
        index = rng.randrange(len(_PHRASINGS[kind][attribute]))
        if not held_out(*key(kind, subject, attribute, index)):
            break
    say(talk, kind, subject, attribute, question(kind, subject, attribute, index))


def say(talk, kind, subject, attribute, asked) -> None:
    talk.say(respell(talk.rng, asked), answer(talk.rng, kind, subject, attribute, talk.brief), "fact")
    talk.fact = (kind, subject, attribute)


def respell(rng, asked: str) -> str:
    """A quarter of the users spell the American way."""
    if rng.random() < 0.25:
        asked = asked.replace("colour", "color").replace("favourite", "favorite")
    return asked


def follow_up(talk) -> None:
    """After a fact: the same attribute of somebody else, or another attribute of the same person by pronoun."""
    rng = talk.rng
    kind, subject, attribute = talk.fact
    if kind != "person" and rng.random() < 0.5:
        _there(talk, kind, subject)
        return
    if attribute and (kind != "person" or rng.random() < 0.5):
        other = rng.choice([s for s in _SUBJECTS[kind] if s is not subject])
        name = a(other.name) if kind == "creature" else other.name
        form = rng.choice(("And what about {}?", "And {}?", "What about {}?", "How about {}?"))
        if attribute == "about":
            talk.say(form.format(name), portrait(rng, kind, other), "fact")
            talk.fact = (kind, other, "about")
            return
        say(talk, kind, other, attribute, form.format(name))
        return
    attribute = rng.choice([t for t in PERSON_TOPICS if t != attribute])  # of the same person, by pronoun
    if rng.random() < 0.3:
        noun = rng.choice(PERSON_TOPICS[attribute].nouns).format(**slots(kind, subject, attribute, "", True))
        asked = rng.choice(("And {}?", "What about {}?", "And what is {}?")).format(noun)
    else:
        asked = question(kind, subject, attribute, rng.randrange(len(_PHRASINGS[kind][attribute])), True)
    say(talk, kind, subject, attribute, capital(asked))


_THERE = {
    "landmark": ("What can I see there?", "What is there to see?"), "product": ("What is it known for?", "What is it famous for?"),
    "flag": ("What does its flag look like?", "And its flag?"), "market_day": ("When is the market there?", "When is market day?"),
    "mayor": ("Who is the mayor there?", "Who is its mayor?"), "festival": ("What do they celebrate there?", "And the festival?"),
    "neighbour": ("Where does the road lead from there?", "Which village comes next?"),
    "eats": ("What does it eat?", "And what does it like to eat?"), "lives": ("Where does it live?", "Where can I find it?"),
    "sound": ("What sound does it make?", "How does it sound?"), "looks": ("What does it look like?", "How does it look?"),
}


def _there(talk, kind, subject) -> None:
    """More about the same village or creature, which the user calls "there" or "it"."""
    rng = talk.rng
    if kind == "village" and rng.random() < 0.3:
        asked = rng.choice(("Who lives there?", "And who lives there?", "Which people live there?"))
        talk.say(asked, join_and(world.people_with("village", subject.name)) + f" live in {subject.name}.", "fact")
        talk.fact = (kind, subject, "product")
        return
    attribute = rng.choice(list(_TOPICS[kind]))
    say(talk, kind, subject, attribute, rng.choice(_THERE[attribute]))


def compound_turn(talk) -> None:
    """Two attributes of one person in one question."""
    rng, p = talk.rng, talk.rng.choice(world.PEOPLE)
    first, second = rng.sample([t for t in PERSON_TOPICS if t != "pet_name"], 2)
    if first == "friend":  # else "her job" could be the friend's
        first, second = second, first
    one = rng.choice(PERSON_TOPICS[first].direct).format(**slots("person", p, first, ""))
    fill = slots("person", p, second, "", pronoun=True)
    two = rng.choice(PERSON_TOPICS[second].direct).format(**fill)
    asked = rng.choice(("{} And {}", "{} {}")).format(capital(one), two[0].lower() + two[1:])
    if rng.random() < 0.4:
        clause = rng.choice(PERSON_TOPICS[first].clauses).format(**slots("person", p, first, ""))
        asked = f"Tell me {clause} and {rng.choice(PERSON_TOPICS[second].clauses).format(**fill)}."
    said = statement("person", p, first) + " and " + statement("person", p, second, pronoun=True)
    talk.say(respell(rng, asked), said + ".", "fact")
    talk.fact = ("person", p, "")


_YES_NO = ("Is it true that {}?", "Is it right that {}?", "{}, right?", "I think {}.", "{}?", "Am I right that {}?")


def yes_no_case(rng, wanted_held_out: bool):
    """(question, reply, statement) of a yes-no question about a person; half of them are false."""
    while True:
        subject, attribute = rng.choice(world.PEOPLE), rng.choice(list(PERSON_TOPICS))
        index = rng.randrange(len(_YES_NO) + len(PERSON_TOPICS[attribute].yes_no))
        if held_out("yes-no", subject.name, attribute, index) == wanted_held_out:
            break
    truth = getattr(subject, attribute)
    value = truth if rng.random() < 0.5 else rng.choice(world.values_of(attribute))
    if index < len(_YES_NO):
        asked = _YES_NO[index].format(statement("person", subject, attribute, value))
    else:
        form = PERSON_TOPICS[attribute].yes_no[index - len(_YES_NO)]
        asked = form.format(**slots("person", subject, attribute, value))
    fact = statement("person", subject, attribute)
    return capital(asked), ("Yes, " if value == truth else "No, ") + fact + ".", (subject, attribute)


def yes_no_turn(talk) -> None:
    asked, reply, (subject, attribute) = yes_no_case(talk.rng, False)
    talk.say(respell(talk.rng, asked), reply, "fact")
    talk.fact = ("person", subject, attribute)


def held_out_cases(rng, count: int) -> list[dict]:
    """Forward questions whose combination of fact and phrasing never occurs in training."""
    pool = [(kind, s, t, i) for kind in _TOPICS for s in _SUBJECTS[kind] for t in _TOPICS[kind]
            for i in range(len(_PHRASINGS[kind][t])) if held_out(*key(kind, s, t, i))]
    cases = []
    for kind, s, t, i in rng.sample(pool, min(count, len(pool))):
        truth, asked = getattr(s, t), question(kind, s, t, i)
        others = {getattr(o, t) for o in _SUBJECTS[kind]}
        avoid = sorted(v for v in others if v not in truth and truth not in v and v not in asked)
        cases.append({"messages": [["user", asked]], "want": [truth], "avoid": avoid})
    return cases


def yes_no_cases(rng, count: int) -> list[dict]:
    cases = []
    for _ in range(count):
        asked, reply, (subject, attribute) = yes_no_case(rng, True)
        cases.append({"messages": [["user", asked]], "want": [reply.split(",")[0], getattr(subject, attribute)],
                      "avoid": []})
    return cases
