"""One conversation under construction: its messages and what later turns may refer back to."""

from dataclasses import dataclass, field

from .text import open_with, swap_contractions, typing_noise

GREETINGS = ("Hi! ", "Hello! ", "Hey, ", "Hello, ", "Hi, ", "Please, ", "One question: ", "So, ", "Excuse me, ", "Hi there! ",
             "Tell me, ", "I have a question. ", "Good morning! ", "Quick question: ", "Dear weft, ")
REACTIONS = ("Nice! ", "Thanks! ", "Thank you. ", "Okay, ", "Ok. ", "Great! ", "Cool. ", "I see. ", "Haha, ", "Good. ", "Wow! ", "Hm, ",
             "Right. ", "Lovely! ", "Interesting. ", "Now, ", "And ", "Well, ", "By the way, ", "Good to know. ", "Oh, ", "Next: ")
OPENERS = GREETINGS + REACTIONS
CLOSERS = (" Please.", " Thanks!", " Thank you.", " I am curious.", " :)", " I want to know.")


@dataclass
class Talk:
    """Mutable state that turn makers append to. Turn makers are functions `make(talk) -> None`."""

    rng: object
    messages: list = field(default_factory=list)  # [(role, content)]
    user_name: str = ""  # set once the user has said it (or the system prompt did)
    bot_name: str = ""  # set by a system prompt that renames the assistant
    noisy: bool = False  # this user types hurriedly
    asks_name: bool = False  # the user wants to know who the renamed assistant is
    brief: bool = False  # a system prompt asked for short answers
    fact: tuple = ()  # (person, attribute) of the last fact, for "and what about ...?"
    number: int | None = None  # last arithmetic result, for "and plus 3?"
    last: str = ""  # kind of the last turn: "joke", "story", "riddle", ...
    riddle: tuple = ()  # open riddle, (question, answer)

    def system(self, content: str) -> None:
        self.messages.append(("system", content))

    def say(self, question: str, answer: str, kind: str, typos: bool = True, plain: bool = False) -> None:
        """Appends one turn. `typos=False` where the answer must copy words of the question."""
        rng = self.rng
        if plain:
            pass
        elif rng.random() < 0.14:
            question = open_with(rng.choice(REACTIONS if self.last else GREETINGS), question)
        elif rng.random() < 0.03:
            question += rng.choice(CLOSERS)
        if rng.random() < 0.15:
            question = swap_contractions(question)
        if self.noisy:
            question = typing_noise(rng, question, typos)
        self.messages.append(("user", question))
        self.messages.append(("assistant", answer))
        self.last = kind
        if kind != "fact":
            self.fact = ()
        if kind != "arithmetic":
            self.number = None
        if kind != "riddle":
            self.riddle = ()
