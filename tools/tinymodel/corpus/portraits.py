"""Short portraits of the people, villages and creatures of Loomvale."""

from .text import a, capital


def portrait(rng, kind: str, subject) -> str:
    if kind == "person":
        return person_portrait(rng, subject)
    return village_portrait(subject) if kind == "village" else creature_portrait(subject)


def person_portrait(rng, p) -> str:
    she, her = capital(p.pronoun), p.possessive
    pet = f"{her} {p.pet_kind} {p.pet_name}"
    forms = (
        f"{p.name} is the {p.job} of {p.village}. {she} lives there with {pet}. {capital(her)} favourite colour is "
        f"{p.colour}, {her} favourite food is {p.food}, and {her} hobby is {p.hobby}. {capital(her)} best friend is "
        f"{p.friend}.",
        f"{p.name} lives in {p.village} and works as {a(p.job)}. {she} loves {p.food} and {p.hobby}. At home, "
        f"{pet} waits for {p.objective}. {capital(her)} best friend is {p.friend}.",
    )
    return forms[0] if rng.random() < 0.7 else forms[1]


def village_portrait(v) -> str:
    return (
        f"{v.name} is a village in Loomvale. It is known for {v.product}, and you can see {v.landmark} there. The market "
        f"is on {v.market_day}, the mayor is {v.mayor}, and the people celebrate {v.festival}. The road from "
        f"{v.name} leads to {v.neighbour}."
    )


def creature_portrait(c) -> str:
    return f"{capital(a(c.name))} is {c.looks}. It lives {c.lives}, eats {c.eats} and makes {c.sound}."
