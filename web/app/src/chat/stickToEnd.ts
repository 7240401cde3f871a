// Keeps the end of the conversation in view while it grows, unless the reader has scrolled up. What
// is shown before there is one is read from its beginning.
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

const kNearEndPixels = 80;

interface StickToEnd {
  isAtEnd: boolean;
  toEnd: () => void;
}

export function useStickToEnd(
  scroller: RefObject<HTMLElement | null>, hasConversation: boolean, changes: readonly unknown[],
): StickToEnd {
  const [isAtEnd, setIsAtEnd] = useState(true);
  const sticks = useRef(true);
  const follows = useRef(false);
  follows.current = hasConversation;
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const look = (): void => {
      const below = element.scrollHeight - element.scrollTop - element.clientHeight;
      sticks.current = below < kNearEndPixels;
      setIsAtEnd(sticks.current);
    };
    element.addEventListener("scroll", look, { passive: true });
    // Blocks that come into view, formulas and colours change heights without a change of the chat.
    const observer = new ResizeObserver(() => {
      if (follows.current && sticks.current) element.scrollTop = element.scrollHeight;
    });
    if (element.firstElementChild) observer.observe(element.firstElementChild);
    return () => {
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, [scroller]);
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element && !hasConversation) element.scrollTop = 0;
    else if (element && sticks.current) element.scrollTop = element.scrollHeight;
  }, [...changes]);
  const toEnd = (): void => {
    sticks.current = true;
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  return { isAtEnd, toEnd };
}
