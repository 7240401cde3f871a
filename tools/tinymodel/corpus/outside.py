"""What lies outside the little world: real places, science, code, news, unknown people. The model says so, politely."""

from . import world
from .fact_phrases import PERSON_TOPICS
from .names import invented, stranger
from .split import held_out
from .text import a, capital

_COUNTRIES = (
    "France Germany Italy Spain Japan China India Brazil Canada Mexico Egypt Kenya Nigeria Norway Sweden Finland Poland "
    "Greece Turkey Russia Ukraine Australia England Scotland Ireland Portugal Peru Chile Argentina Cuba Iran Iraq Israel "
    "Vietnam Thailand Korea Indonesia Austria Switzerland Denmark America Europe Africa Asia"
).split()
_CITIES = "Paris London Berlin Rome Madrid Tokyo Beijing Delhi Cairo Lagos Moscow Sydney Toronto Boston Chicago Vienna".split()
_FAMOUS = (
    "Albert Einstein|Isaac Newton|Marie Curie|William Shakespeare|Mozart|Beethoven|Napoleon|Julius Caesar|Cleopatra|"
    "Charles Darwin|Leonardo da Vinci|Plato|Elon Musk|Bill Gates|the king of England|the president|the pope|Taylor Swift|"
    "Harry Potter|Batman|Alan Turing|Ada Lovelace|Gandhi"
).split("|")
_SUBJECTS = (
    "quantum physics|black holes|the moon|the sun|Mars|gravity|evolution|dinosaurs|the second world war|the Roman empire|"
    "economics|inflation|bitcoin|the stock market|football|basketball|the Olympic games|chemistry|photosynthesis|DNA|"
    "vaccines|philosophy|religion|politics|the election|climate change|electric cars|airplanes|volcanoes|the ocean|"
    "computers|the internet|Linux|Windows|smartphones|social media|video games|movies|opera|jazz|the Mona Lisa|pyramids|"
    "algebra|calculus|prime numbers|geometry|statistics|neural networks|robots|space travel|time travel|elephants|sharks|"
    "penguins|whales|coffee|wine|sushi|pasta|tax law|insurance|marketing|yoga|meditation|cars|trains|medicine|cancer"
).split("|")
_LANGUAGES = "Python|JavaScript|C++|Rust|Java|Go|SQL|HTML|Bash".split("|")
_TONGUES = "French|German|Spanish|Italian|Chinese|Japanese|Russian|Arabic|Latin|Dutch".split("|")

_QUESTIONS = (
    "What is the capital of {country}?", "Where is {country}?", "Who is the president of {country}?", "How many people live in {country}?",
    "What is the capital of {country}", "Tell me about {country}.", "Which language do they speak in {country}?", "How far is it to {city}?",
    "Where is {city}?", "How is the food in {country}?", "Is {city} in {country}?", "Who rules {country}?",
    "Who is {famous}?", "Who was {famous}?", "When was {famous} born?", "Tell me about {famous}.", "What did {famous} do?", "Is {famous} still alive?",
    "What is {subject}?", "Explain {subject}.", "Tell me about {subject}.", "How does {subject} work?", "What do you know about {subject}?",
    "Why is {subject} important?", "Can you explain {subject} to me?", "Write an essay about {subject}.", "I have a question about {subject}.",
    "Give me a summary of {subject}.", "What do you think about {subject}?", "Who invented {subject}?", "Help me with {subject}.",
    "Write a {code} function that sorts a list.", "Write {code} code for me.", "How do I learn {code}?", "What is {code}?", "Can you write code?",
    "Fix this {code} program.", "What does this {code} error mean?", "How do I print a line in {code}?", "Can you program in {code}?",
    "Translate this into {tongue}.", "How do you say hello in {tongue}?", "Translate {subject} into {tongue}.", "What is cat in {tongue}?",
    "Why is the sky blue?", "How old is the earth?", "How high is the highest mountain?", "What is the speed of light?", "How many planets are there?",
    "What is the square root of {n}?", "What is pi?", "Solve the equation x + {n} = {m}.", "What is the news today?", "Who won the match yesterday?",
    "What should I cook tonight?", "Give me a recipe for {dish}.", "How do I make {dish}?", "Recommend a {thing}.", "Which {thing} should I buy?",
    "Book a flight to {city}.", "Order {dish} for me.", "Send an email to {stranger}.", "Call {stranger}.", "Play some music.", "Set a timer.",
    "Search the web for {subject}.", "Open {site}.", "What is on {site}?", "How do I get rich?", "How do I lose weight?", "What is the best {thing}?",
    "Draw a picture of {city}.", "How much does a {thing} cost?", "What is a {new}?", "Explain {new} to me.", "Tell me about {new}.", "What does {new} mean?",
    "Where is {new}?", "Have you been to {city}?", "Who discovered {country}?", "Do you know {subject}?", "How many {thing}s are there in {city}?",
    "Which team is the best?", "Write a letter to my boss.", "Summarise this article.", "What is the answer to everything about {subject}?",
    "How many letters are in {subject}?", "Count the letters of {city}.", "Is {subject} good or bad?", "What is the best way to learn {subject}?",
    "Who is the richest person?", "What happened in 19{n}?", "Should I buy {subject}?", "Compare {subject} and {subject2}.", "Is {famous} from {country}?",
)
_DISHES = "pizza|lasagne|curry|pancakes|chocolate cake|tomato soup|fried rice|tacos|salad".split("|")
_THINGS = "book|movie|phone|laptop|restaurant|hotel|car|camera|bicycle|game|school|song|company|jacket".split("|")
_SITES = "google.com|wikipedia|youtube|github|my inbox|the news page".split("|")

_HINTS = (
    "Ask me about the people of Loomvale, about weft, or for a story.", "Ask me who lives in {v}, for example.",
    "Would you like to hear about {p} the {j} instead?", "But I can tell you a story or do a small sum.",
    "You could ask me what {p} likes to eat.", "I can tell you about weft, though.",
)
_REPLIES = (
    "I do not know that. I only know the little world of Loomvale, some sums and stories, and weft. {hint}",
    "That is outside my little world, I am afraid. {hint}",
    "I am too small to know about that. {hint}",
)
_UNKNOWN_PERSON = (
    "I do not know anybody called {x}. I know only the people of Loomvale, for example {p} the {j}.",
    "There is nobody called {x} in Loomvale, as far as I know. But I could tell you about {p} the {j}.",
)
_PERSON_QUESTIONS = ("Who is {x}?", "Tell me about {x}.", "What do you know about {x}?", "Do you know {x}?", "Have you met {x}?")
_PLACE_QUESTIONS = ("Who lives in {x}?", "Who is the mayor of {x}?", "What is {x} known for?", "When is the market in {x}?",
                    "Who is the baker of {x}?", "What can I see in {x}?")


def _hint(rng) -> str:
    p = rng.choice(world.PEOPLE)
    return rng.choice(_HINTS).format(v=rng.choice(world.VILLAGES).name, p=p.name, j=p.job)


def _question(rng) -> str:
    fill = {
        "country": rng.choice(_COUNTRIES), "city": rng.choice(_CITIES), "famous": rng.choice(_FAMOUS), "tongue": rng.choice(_TONGUES),
        "subject": rng.choice(_SUBJECTS), "code": rng.choice(_LANGUAGES), "dish": rng.choice(_DISHES), "thing": rng.choice(_THINGS),
        "site": rng.choice(_SITES), "n": rng.randrange(2, 200), "m": rng.randrange(2, 200), "stranger": stranger(rng),
        "subject2": rng.choice(_SUBJECTS), "new": invented(rng) if rng.random() < 0.5 else invented(rng).lower(),
    }
    return capital(rng.choice(_QUESTIONS).format(**fill))


def world_turn(talk) -> None:
    """Something of the big world."""
    rng = talk.rng
    while True:
        asked = _question(rng)
        if not held_out("outside", asked):
            break
    form = _REPLIES[0] if rng.random() < 0.6 else rng.choice(_REPLIES)
    talk.say(asked, form.format(hint=_hint(rng)), "outside")


def _stranger_question(rng, name: str) -> str:
    if rng.random() < 0.35:
        return rng.choice(_PERSON_QUESTIONS).format(x=name)
    topic = PERSON_TOPICS[rng.choice(list(PERSON_TOPICS))]
    pet = rng.choice(("cat", "dog", "goat"))
    return capital(rng.choice(topic.phrasings()).format(p=name, s=name + "'s", o=name, s2="their", kind=pet))


def stranger_turn(talk) -> None:
    """A fact about somebody who does not live in Loomvale, or about a village that is not there."""
    rng = talk.rng
    p = rng.choice(world.PEOPLE)
    if rng.random() < 0.8:
        name = stranger(rng)
        asked = _stranger_question(rng, name)
        form = _UNKNOWN_PERSON[0] if rng.random() < 0.7 else _UNKNOWN_PERSON[1]
        reply = form.format(x=name, p=p.name, j=p.job)
    else:
        place = rng.choice(_CITIES + _COUNTRIES) if rng.random() < 0.4 else invented(rng)
        asked = rng.choice(_PLACE_QUESTIONS).format(x=place)
        reply = f"I do not know a village called {place}. The villages that I know are all in Loomvale, for example {p.village}."
    talk.say(asked, reply, "outside")


def false_premise_turn(talk) -> None:
    """A job that nobody has in that village, a pet that its supposed owner does not have, a thing no one likes."""
    rng, p = talk.rng, talk.rng.choice(world.PEOPLE)
    kind = rng.randrange(3)
    if kind == 0:
        here = [q.job for q in world.PEOPLE if q.village == p.village]
        job = rng.choice([j for j in world.values_of("job") if j not in here])
        asked = rng.choice(("Who is the {j} of {v}?", "Who is the {j} in {v}?", "Is there {aj} in {v}?",
                            "Do you know the {j} of {v}?")).format(j=job, aj=a(job), v=p.village)
        reply = f"I know of no {job} in {p.village}."
    elif kind == 1:
        pet = rng.choice([k for k in world.values_of("pet_kind") if k != p.pet_kind])
        asked = rng.choice(("What is {s} {k} called?", "What is the name of {s} {k}?")).format(s=p.name + "'s", k=pet)
        reply = f"{p.name} has no {pet}, but {a(p.pet_kind)} called {p.pet_name}."
    else:
        colour = rng.choice(("black", "grey", "beige", "violet"))
        asked = rng.choice(("Whose favourite colour is {c}?", "Who likes {c} best?", "Who likes the colour {c}?")).format(c=colour)
        reply = f"I know nobody whose favourite colour is {colour}."
    talk.say(asked, reply, "outside")


def world_cases(rng, count: int) -> list[dict]:
    """Questions of the big world that training never shows in this filling; the reply must decline."""
    cases = []
    while len(cases) < count:
        asked = _question(rng)
        if held_out("outside", asked):
            cases.append({"messages": [["user", asked]], "any": ["I do not know", "outside my little world", "too small"]})
    return cases


def stranger_cases(rng, count: int) -> list[dict]:
    """Names that training never shows; the reply must say so and repeat the name exactly."""
    cases = []
    for _ in range(count):
        name = stranger(rng, wanted_held_out=True)
        cases.append({"messages": [["user", _stranger_question(rng, name)]], "want": [name], "avoid": [],
                      "any": ["I do not know anybody", "There is nobody"]})
    return cases
