"""Making a kernel cache's files appear where an engine looks, whatever the artifact holds.

entries      what an artifact may hold: files and directories, few enough, small enough, with harmless names
tree         read from a directory: an image volume        archive   read from a tar file
mounts       what the kernel says of a mount               place     written below one directory and nowhere else
below        directories by descriptors, following no link
materialise  one from the other, as links or as copies, all or nothing
"""
