"""Jokes, riddles and little rhymes, and the turns around them."""

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
    "A {x} in the morning light,\na {x} beneath the star,\nit keeps me warm, it keeps me bright,\nand never goes too far.",
    "I met {ax} on the hill,\nwhere all the winds were calm and still.\nIt looked at me, I looked at it,\nand there we sat a "
    "little bit.",
    "O little {x}, so round and neat,\nyou make the longest evening sweet.\nAnd when the lamps go out at last,\nI hold my "
    "little {x} fast.",
)
_ASK_POEM = ("Write a poem about {}.", "Write me a poem about {}.", "A poem about {}, please.", "Can you write a poem about {}?",
             "Make a rhyme about {}.", "I want a poem about {}.")


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


def poem_turn(talk, words) -> None:
    rng = talk.rng
    word = rng.choice(words)
    talk.say(rng.choice(_ASK_POEM).format(a(word)), capital(rng.choice(_POEM).format(x=word, ax=a(word))), "poem",
             typos=False)
