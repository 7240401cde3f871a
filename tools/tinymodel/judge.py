"""When a reply is right. Standard library only."""

import re

NEW_TOKENS = {"stories on request": 330, "two-digit *": 110}
DEFAULT_NEW_TOKENS = 64


def holds(reply: str, word: str) -> bool:
    """The word stands in the reply as a whole word."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", reply, re.IGNORECASE) is not None


def is_right(case: dict, reply: str) -> bool:
    if "number" in case:
        numbers = re.findall(r"-?\d+", reply)
        in_digits = bool(numbers) and int(numbers[-1]) == case["number"]
        said = reply.lower().rstrip(".")
        in_words = said == case["words"] or said.endswith(" is " + case["words"])
        return in_digits or (not numbers and in_words)
    if not all(holds(reply, w) for w in case.get("want", [])):
        return False
    if any(holds(reply, w) for w in case.get("avoid", [])):
        return False
    if "any" in case and not any(w in reply for w in case["any"]):
        return False
    low, high = case.get("words", (0, 10 ** 6))
    return low <= len(reply.split()) <= high


def reply_length(task: str, case: dict) -> int:
    """Tokens that a reply to the case may have."""
    return 8 if "raw" in case else NEW_TOKENS.get(task, DEFAULT_NEW_TOKENS)
