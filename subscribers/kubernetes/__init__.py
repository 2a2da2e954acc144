"""The Kubernetes API, listened to and written to.

client     one connection: configuration, credentials that rotate, deadlines, plain bytes
routes     where objects of a kind live
objects    single objects, as handlers.effects asks for them
tokenreviews  whose a bearer token is
narrow     from an object's bytes to what handlers read, and nothing else
unreadable  what is told of an object that does not decode
pages      one page of a list                         livereads  lists for one decision, and values behind tokens
lines      a watch's stream, cut into lines
machine    one kind's watch as a state machine     watcher    its loop, with sockets
appending  what a watch saw, as events
"""
