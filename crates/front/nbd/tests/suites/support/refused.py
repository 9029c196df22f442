# A connection that refuses nothing itself, and a call that the server must refuse.
import errno, nbd, random, sys

def connect(uri, structured=True):
    h = nbd.NBD()
    h.set_strict_mode(0)
    h.set_request_structured_replies(structured)
    if structured:
        h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    h.connect_uri(uri)
    return h

def refused(number, call, *arguments, **more):
    try:
        call(*arguments, **more)
    except nbd.Error as error:
        assert error.errnum == number, (call, arguments, error.errnum, error)
        return
    raise AssertionError(f"{call} {arguments} was not refused")
