"""Jokes, riddles, little rhymes, echoes and likings: short games with words."""

from . import world
from .names import invented, stranger
from .story_words import ANIMALS, ITEMS
from .text import a, capital

JOKES = (
    "Why did the weaver go to school? To improve her threads of thought.",
    "Why do bees hum? Because they have forgotten the words.",
    "What did the big candle say to the little candle? You are too young to go out.",
    "Why was the clock in Spindle Green sent home? It tocked too much.",
    "Why did the snail join a swarm? It wanted to share its load.",
    "What do you call a sleeping shepherd? One who counted too well.",
    "Why did the baker get up at night? She kneaded to.",
    "Why did the tab cross the browser? To get to the other site.",
    "What is a tortoise's favourite window? One that never shuts too quickly.",
    "Why did the ghost like the lighthouse? It was a bright idea.",
    "How does a lamplighter say goodbye? I am going out.",
    "Why are fish so clever? They spend all day in schools.",
    "What did one layer say to the next? I will pass it on to you.",
    "Why did the tailor win the argument? He had it all sewn up.",
    "What did the sea say to the ferry captain? Nothing, it just waved.",
    "Why did the gardener plant a lamp? He wanted a light lunch.",
    "Why did the token feel lonely? It was the last one of its sentence.",
    "What do you get when a goose learns juggling? Dropped eggs.",
    "Why did the pony whisper? It was a little hoarse.",
    "Why is the doctor of Ravel End so calm? She has a lot of patients.",
)
_ASK_JOKE = (
    "Tell me a joke.", "Do you know a joke?", "Make me laugh.", "A joke, please.", "Can you tell me a joke?", "Joke!",
    "Say something funny.", "Do you know any jokes?", "I want to hear a joke.", "Tell a joke", "Another joke, please.",
)
_AGAIN = ("Another one!", "One more, please.", "Another one, please.", "Tell me another one.", "One more!", "Again!")

RIDDLES = (
    ("What has hands but cannot clap?", "a clock"), ("What has teeth but cannot bite?", "a comb"),
    ("What gets wetter the more it dries?", "a towel"), ("What has a neck but no head?", "a bottle"),
    ("What goes up but never comes down?", "your age"), ("What has keys but opens no door?", "a piano"),
    ("What runs all day but never walks?", "a river"), ("What has one eye but cannot see?", "a needle"),
    ("What gets bigger the more you take away from it?", "a hole"), ("What has leaves but is not a tree?", "a book"),
    ("What can fill a whole room but weighs nothing?", "light"), ("What follows you all day in the sun?", "your shadow"),
    ("What grows shorter as it grows older?", "a candle"), ("What has a bed but never sleeps?", "a river"),
    ("What can you break without touching it?", "a promise"), ("What belongs to you but others use it more?", "your name"),
)
_ASK_RIDDLE = (
    "Tell me a riddle.", "Do you know a riddle?", "Give me a riddle.", "A riddle, please.", "Can you ask me a riddle?",
    "Ask me a riddle.", "I like riddles.", "I want a riddle.", "Let us play a riddle game.", "Riddle me something.",
)
_GIVE_UP = ("I don't know.", "I give up.", "Tell me.", "What is it?", "No idea.", "What is the answer?", "Please tell me.", "Hmm, I don't know")

_POEM = (
    "When all the world is sound asleep\nand stars look down from far and deep,\nI think of {x}, and I am glad,\nand nothing in "
    "the night is sad.",
    "I met {x} upon the hill,\nwhere all the winds were calm and still.\nWe said hello, we sat a bit,\nand by the moon our way "
    "was lit.",
    "One day I wrote about {x}\na little line or two,\nand when I read it in the rain,\nthe sky turned back to blue.",
    "Oh {x}, oh {x}, what can I say?\nYou make a morning of my day.\nYou make an evening of my night,\nand in the window, "
    "put a light.",
)
POEM_WORDS = (
    "the moon|the sea|the rain|the sun|the wind|the stars|the snow|the night|love|friendship|spring|summer|autumn|winter|a cat|"
    "a dog|my mother|my friend|weft|Loomvale|bread|home|computers|flowers|the forest|the river|time|music|coffee|tea|a tree|"
    "the morning|birds|cats|dogs|a rose|an apple|robots|the internet|peace|hope|the ocean|clouds|a star|sleep"
).split("|")
_ASK_POEM = ("Write a poem about {}.", "Write me a poem about {}.", "A poem about {}, please.", "Can you write a poem about {}?",
             "Make a rhyme about {}.", "I want a poem about {}.", "Write a short poem about {}.", "Poem about {}",
             "Can you make a poem about {}?", "Write a haiku about {}.", "Tell me a poem about {}.", "Write some verses about {}.")
_ASK_ANY_POEM = ("Write a poem.", "Tell me a poem.", "Write me a poem.", "A poem, please.", "Do you know a poem?", "Can you write poems?")


def joke_turn(talk) -> None:
    rng = talk.rng
    talk.say(rng.choice(_AGAIN if talk.last == "joke" and rng.random() < 0.7 else _ASK_JOKE), rng.choice(JOKES), "joke")


def riddle_turn(talk) -> None:
    rng = talk.rng
    asked, solution = rng.choice(RIDDLES)
    talk.say(rng.choice(_AGAIN if talk.last == "riddle" else _ASK_RIDDLE), asked, "riddle")
    talk.riddle = (asked, solution)


def riddle_answer_turn(talk) -> None:
    rng, (_, solution) = talk.rng, talk.riddle
    guess = rng.random()
    if guess < 0.4:
        said, reply = rng.choice(_GIVE_UP), f"The answer is: {solution}."
    elif guess < 0.7:
        said = rng.choice(("{}?", "Is it {}?", "{}", "It is {}.", "{}!", "I think it is {}.")).format(solution)
        reply = f"Yes, that is right! The answer is {solution}."
    else:
        wrong = rng.choice([s for _, s in RIDDLES if s != solution])
        said = rng.choice(("{}?", "Is it {}?", "{}", "It is {}.", "{}!", "I think it is {}.")).format(wrong)
        reply = f"No, not quite. The answer is {solution}."
    talk.say(capital(said), reply, "answer")


def poem_turn(talk) -> None:
    rng = talk.rng
    about = rng.choice((rng.choice(POEM_WORDS), a(rng.choice(ITEMS)), a(rng.choice(ANIMALS)), a(invented(rng).lower()),
                        stranger(rng), rng.choice(world.PEOPLE).name))
    asked = rng.choice(_ASK_POEM).format(about) if rng.random() < 0.85 else rng.choice(_ASK_ANY_POEM)
    talk.say(asked, capital(rng.choice(_POEM).format(x=about.replace("my ", "your "))), "poem", typos=False)


_LIKES = ("Do you like {}?", "I like {}.", "I love {}.", "What do you think about {}?", "Do you love {}?", "I like {}. Do you like {} too?",
          "{} is my favourite thing.", "I am fond of {}.", "How do you like {}?")
_LIKES_REPLY = ("I know {} only from words, but I like the sound of it.", "That sounds lovely! I know {} only from words.")
_THINGS = POEM_WORDS + (
    "football|cooking|books|films|games|pizza|chocolate|my job|school|horses|old trains|board games|swimming|dancing|cake|"
    "long walks|knitting|chess|painting|bicycles|trees|my garden|the mountains|holidays|soup|cheese|ice cream|reading|running"
).split("|")


def likes_turn(talk) -> None:
    """What the user likes; the reply takes up the thing."""
    rng = talk.rng
    about = rng.choice((rng.choice(_THINGS), rng.choice(_THINGS), rng.choice(ANIMALS) + "s", invented(rng).lower()))
    yours = about.replace("my ", "your ")
    reply = _LIKES_REPLY[0] if rng.random() < 0.8 else _LIKES_REPLY[1]
    talk.say(capital(rng.choice(_LIKES).format(about, about)), reply.format(yours), "likes", typos=False)


_ECHO = ("Say {}.", "Repeat: {}", "Repeat after me: {}", "Say {}", "Please repeat: {}", "Repeat {}.", "Please say {}.", "Echo: {}", "Can you say {}?",
         "Write {}.", "Type {}.")
_ECHO_WORDS = ITEMS + ANIMALS + "hello goodbye yes no maybe please red green blue one two three weft swarm layer banana apple".split()


def echo_turn(talk) -> None:
    """Repeats what the user gives, word by word: the skill behind every name and new noun."""
    rng = talk.rng

    def word():
        kind = rng.randrange(5)
        return (rng.choice(_ECHO_WORDS), stranger(rng), invented(rng), invented(rng).lower(), str(rng.randrange(1000)))[kind]

    phrase = " ".join(word() for _ in range(rng.randrange(1, 6)))
    noisy, talk.noisy = talk.noisy, False
    talk.say(rng.choice(_ECHO).format(phrase), phrase, "echo", plain=True)
    talk.noisy = noisy


def spell_turn(talk) -> None:
    """Letters of a word, one by one."""
    rng = talk.rng
    word = rng.choice((rng.choice(ITEMS), rng.choice(world.PEOPLE).name, stranger(rng), rng.choice(ANIMALS)))
    asked = rng.choice(("Spell {}.", "How do you spell {}?", "Can you spell {}?", "Spell the word {}."))
    talk.say(asked.format(word), "-".join(word.upper()) + ".", "spell", typos=False)
