"""The control protocol: what xtraced and its clients say to each other, without any I/O.

A connection is a Unix stream socket that carries frames:

    offset  size  field
    0       4     length of the body, little-endian, 1 to 1 MiB (4 KiB before both hellos)
    4       n     body: one msgpack map with string keys

Why a length in front? A bare msgpack stream ends silently when it is cut, and has no bound.

The body is one of these; `C` the client says, `S` the service. Fields not listed here are
ignored, so that a later release may add some.

    C   {hello: {lowest, highest, software}}    first of all; versions it speaks
    S   {hello: {lowest, highest, software}}    the answer
    C   {id, command, args}                     id: any number not in use, 0 to 2**32-1
    S   {id, result}                            the answer, a map
    S   {id, error: {code, message, hint}}      or this; the connection goes on
    S   {id, item}                              one of many answers, to a command that streams
    S   {id, done: true}                        no more of them
    S   {bye: {code, message, hint}}            the service ends the connection, and why

Both sides use the highest version that both speak; without one the connection is over. The
client speaks first, so that a service with too many clients can refuse with `bye` unread.
Up to 16 requests may be open at once, answers come in any order. Whatever breaks these
rules ends the connection, and nothing else: a wrong request is answered with an error.

`connection.py` has the rules as a table, `messages.py` the maps, `commands.py` the
commands with their arguments, results and error codes.
"""
