"""The longest end of a sequence that stood in it before, in constant time a token: a suffix automaton."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Suffixes:
    """States of the automaton, by number; 0 is the empty end. `after[s]`: a place behind what s reads."""

    next: list[dict[int, int]] = field(default_factory=lambda: [{}])
    length: list[int] = field(default_factory=lambda: [0])
    link: list[int] = field(default_factory=lambda: [-1])
    after: list[int] = field(default_factory=lambda: [0])
    last: int = 0
    seen: int = 0

    def add(self, token: int) -> None:
        """Append `token`."""
        repeated = self.link[self.last]
        if repeated > 0:  # what was matched last stands here too: the most recent place is the better guess
            self.after[repeated] = self.seen
        self.seen += 1
        state, at = self._new({}, self.length[self.last] + 1, self.seen), self.last
        while at >= 0 and token not in self.next[at]:
            self.next[at][token] = state
            at = self.link[at]
        self.link[state] = 0 if at < 0 else self._link(at, token)
        self.last = state

    def repeated(self) -> tuple[int, int]:
        """Length of the longest end that also stands earlier, and the place behind it there; 0, 0: none."""
        state = self.link[self.last]
        return (self.length[state], self.after[state]) if state > 0 else (0, 0)

    def _link(self, at: int, token: int) -> int:
        """The state of the longest known end with `token` behind `at`, cut out of a longer one if need be."""
        there = self.next[at][token]
        if self.length[there] == self.length[at] + 1:
            return there
        clone = self._new(dict(self.next[there]), self.length[at] + 1, self.after[there])
        self.link[clone], self.link[there] = self.link[there], clone
        while at >= 0 and self.next[at].get(token) == there:
            self.next[at][token] = clone
            at = self.link[at]
        return clone

    def _new(self, following: dict[int, int], length: int, after: int) -> int:
        self.next.append(following)
        self.length.append(length)
        self.link.append(-1)
        self.after.append(after)
        return len(self.next) - 1
