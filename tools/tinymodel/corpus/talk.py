"""One conversation under construction: its messages and what later turns may refer back to."""

from dataclasses import dataclass, field

from .text import typing_noise


@dataclass
class Talk:
    """Mutable state that turn makers append to. Turn makers are functions `make(talk) -> None`."""

    rng: object
    messages: list = field(default_factory=list)  # [(role, content)]
    user_name: str = ""  # set once the user has said it (or the system prompt did)
    bot_name: str = ""  # set by a system prompt that renames the assistant
    noisy: bool = False  # this user types hurriedly
    brief: bool = False  # a system prompt asked for short answers
    fact: tuple = ()  # (person, attribute) of the last fact, for "and what about ...?"
    number: int | None = None  # last arithmetic result, for "and plus 3?"
    last: str = ""  # kind of the last turn: "joke", "story", "riddle", ...
    riddle: tuple = ()  # open riddle, (question, answer)

    def system(self, content: str) -> None:
        self.messages.append(("system", content))

    def say(self, question: str, answer: str, kind: str, typos: bool = True) -> None:
        """Appends one turn. `typos=False` where the answer must copy words of the question."""
        if self.noisy:
            question = typing_noise(self.rng, question, typos)
        self.messages.append(("user", question))
        self.messages.append(("assistant", answer))
        self.last = kind
        if kind != "fact":
            self.fact = ()
        if kind != "arithmetic":
            self.number = None
        if kind != "riddle":
            self.riddle = ()
