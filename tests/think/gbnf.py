"""Whether a text is a sentence of a GBNF grammar: all ends of every part are followed, so no order of the
alternatives matters. For tests; exponential in nothing, thanks to the memo.
"""
import re
import sys

sys.setrecursionlimit(100000)
TOKEN = re.compile(r'\s*(?:("(?:\\.|[^"\\])*")|(\[(?:\\.|[^\]\\])*\])|([A-Za-z][A-Za-z0-9-]*)|([()|*+?]))')


class Grammar:
    def __init__(self, text):
        self.rules = {}
        for line in text.splitlines():
            if "::=" in line:
                name, body = line.split("::=", 1)
                self.rules[name.strip()] = self.read(body.strip())
        for node in self.nodes():
            if node[0] == "rule" and node[1] not in self.rules:
                raise ValueError(f"rule {node[1]} is not there")

    def nodes(self):
        stack = list(self.rules.values())
        while stack:
            node = stack.pop()
            yield node
            stack += [part for part in node[1:] if isinstance(part, tuple)]
            for part in node[1:]:
                if isinstance(part, list):
                    stack += part

    def read(self, body):
        tokens, at = [], 0
        while at < len(body):
            match = TOKEN.match(body, at)
            if not match:
                raise ValueError(f"no GBNF: {body[at:at + 40]}")
            tokens.append(match.groups())
            at = match.end()
            while at < len(body) and body[at].isspace():
                at += 1
        node, rest = self.choice(tokens)
        if rest:
            raise ValueError(f"no GBNF after {body[:60]}")
        return node

    def choice(self, tokens):
        items = []
        while True:
            node, tokens = self.sequence(tokens)
            items.append(node)
            if not tokens or tokens[0][3] != "|":
                return (("choice", items) if len(items) > 1 else items[0]), tokens
            tokens = tokens[1:]

    def sequence(self, tokens):
        items = []
        while tokens and tokens[0][3] not in ("|", ")"):
            text, characters, name, mark = tokens[0]
            tokens = tokens[1:]
            if mark == "(":
                node, tokens = self.choice(tokens)
                tokens = tokens[1:]
            elif text is not None:
                node = ("text", text[1:-1].encode().decode("unicode_escape"))
            elif characters is not None:
                node = ("class", re.compile(characters))
            else:
                node = ("rule", name)
            while tokens and tokens[0][3] in ("*", "+", "?"):
                node = (tokens[0][3], node)
                tokens = tokens[1:]
            items.append(node)
        return ("sequence", items), tokens

    def ends(self, node, at):
        key = (id(node), at)
        if key not in self.memo:
            self.memo[key] = frozenset(self.find(node, at))
            self.furthest = max([self.furthest, *self.memo[key]])
        return self.memo[key]

    def find(self, node, at):
        kind = node[0]
        if kind == "text":
            return {at + len(node[1])} if self.text.startswith(node[1], at) else set()
        if kind == "class":
            return {at + 1} if at < len(self.text) and node[1].match(self.text[at]) else set()
        if kind == "rule":
            return self.ends(self.rules[node[1]], at)
        if kind == "choice":
            return set().union(*(self.ends(item, at) for item in node[1]))
        if kind == "sequence":
            places = {at}
            for item in node[1]:
                places = set().union(*(self.ends(item, place) for place in places)) if places else set()
            return places
        if kind == "?":
            return {at} | self.ends(node[1], at)
        found = set() if kind == "+" else {at}
        edge = {at}
        while edge:
            edge = set().union(*(self.ends(node[1], place) for place in edge)) - found
            found |= edge
        return found

    def accepts(self, text):
        self.text, self.memo, self.furthest = text, {}, 0
        return len(text) in self.ends(self.rules["root"], 0)
