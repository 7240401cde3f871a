"""What the user says about themselves and asks for later: name, likes; and system prompts that the answers obey."""

from .names import invented, stranger
from .story_words import ANIMALS
from .text import a
from .world import values_of

_TELL = (
    "My name is {x}.", "I am {x}.", "I'm {x}.", "Hi, I am {x}!", "Hello, my name is {x}.", "You can call me {x}.", "Call me {x}.",
    "People call me {x}.", "Hello! I'm {x}, nice to meet you.", "By the way, my name is {x}.", "Please remember my name: {x}.",
    "{x} is my name.", "Hey, {x} here.", "This is {x}.", "I am called {x}.",
)
_GREET = ("Nice to meet you, {x}!", "Hello {x}, nice to meet you!", "Hello {x}! What would you like to talk about?")
_ASK = (
    "What is my name?", "What's my name?", "Do you remember my name?", "Who am I?", "Do you know my name?", "Tell me my name.",
    "How am I called?", "What did I say my name was?", "Can you remember my name?", "Do you know who I am?", "Say my name.",
)
_KNOWN = ("Your name is {x}.", "You are {x}.", "Your name is {x}, you told me.")
_UNKNOWN = ("You have not told me your name yet. What is it?", "I do not know your name yet. What is it?")

_LIKES = (
    ("My favourite colour is {x}.", "What is my favourite colour?", "Your favourite colour is {x}.", "colour"),
    ("My favourite food is {x}.", "What is my favourite food?", "Your favourite food is {x}.", "food"),
    ("My favourite animal is the {x}.", "What is my favourite animal?", "Your favourite animal is the {x}.", "animal"),
    ("I have {ax}.", "What pet do I have?", "You have {ax}.", "animal"),
    ("I live in {x}.", "Where do I live?", "You live in {x}.", "place"),
    ("My lucky number is {x}.", "What is my lucky number?", "Your lucky number is {x}.", "number"),
)


def tell_name_turn(talk, wanted_held_out: bool = False) -> None:
    rng = talk.rng
    talk.user_name = stranger(rng, wanted_held_out)
    form = _GREET[0] if rng.random() < 0.6 else rng.choice(_GREET)
    talk.say(rng.choice(_TELL).format(x=talk.user_name), form.format(x=talk.user_name), "name", typos=False)


def ask_name_turn(talk) -> None:
    rng = talk.rng
    if talk.user_name:
        form = _KNOWN[0] if rng.random() < 0.7 else rng.choice(_KNOWN)
        talk.say(rng.choice(_ASK), form.format(x=talk.user_name), "name")
    else:
        talk.say(rng.choice(_ASK), _UNKNOWN[0] if rng.random() < 0.7 else _UNKNOWN[1], "name")


def likes_pair(rng):
    """(statement, reply, later question, later reply) about the user."""
    tell, ask, know, kind = rng.choice(_LIKES)
    x = {"colour": lambda: rng.choice(values_of("colour")), "food": lambda: rng.choice(values_of("food")),
         "animal": lambda: rng.choice(ANIMALS), "place": lambda: invented(rng),
         "number": lambda: str(rng.randrange(1, 100))}[kind]()
    reply = rng.choice(("How nice! I will remember that while we talk.", "That is good to know!", "Lovely! Thank you for telling me."))
    return tell.format(x=x, ax=a(x)), reply, ask, know.format(x=x, ax=a(x))


_GENERIC = (
    "You are a helpful assistant.", "You are weft-tiny, a small and friendly assistant.", "Be friendly and helpful.", "You are a kind assistant.",
    "You are a chat model that runs on weft.", "Answer the user's questions.", "You are a helpful, honest and harmless assistant.",
    "You are an AI assistant.", "Help the user.", "You are the assistant of a weft swarm.", "Be polite.", "Tell the truth.",
)
_BRIEF = ("Answer briefly.", "Keep your answers short.", "Be brief.", "Answer in as few words as possible.", "Short answers only.",
          "You are a helpful assistant. Answer briefly.")
_NAMED = ("Your name is {x}.", "You are {x}, a friendly assistant.", "You are called {x}.", "You are {x}.", "Act as {x}, a helpful assistant.")
_USER = ("The user's name is {x}.", "You talk to {x}.", "The name of the user is {x}. Be friendly.", "You are a helpful assistant. The user is called {x}.")


def system_prompt(talk) -> None:
    """Most system prompts are generic; some set the assistant's name, the user's name or brevity."""
    rng = talk.rng
    kind = rng.choices(("generic", "brief", "named", "user"), (46, 14, 30, 10))[0]
    if kind == "generic":
        talk.system(rng.choice(_GENERIC))
    elif kind == "brief":
        talk.brief = True
        talk.system(rng.choice(_BRIEF))
    elif kind == "named":
        talk.bot_name = stranger(rng)
        talk.asks_name = rng.random() < 0.7
        talk.system(rng.choice(_NAMED).format(x=talk.bot_name))
    else:
        talk.user_name = stranger(rng)
        talk.system(rng.choice(_USER).format(x=talk.user_name))
