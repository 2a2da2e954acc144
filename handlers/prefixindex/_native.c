/* The loops that Python cannot make fast enough: keys of a chain of token blocks, token ids out of JSON, the walk along
   a chain, and columns of states that change who holds what.

   chain(packed, block_size, parent) -> list of int    as keys.chain_in_python, for block sizes of 16 and more
   one(block, parent) -> int                           as keys.one_in_python, for blocks of 64 bytes and more
   tokens(body, start) -> (bytes, int) or None         the JSON array of token ids that begins at body[start], packed
                                                       as u32 little-endian, and where it ends; None for anything that
                                                       is not plainly that: then Python reads it, or says what is wrong
   packed(wire) -> bytes or None                       a MessagePack array of token ids, packed as u32 little-endian; None
                                                       for anything that is not plainly that
   store(nodes, refs, buckets, untold, make, hashes,   as naming.below and Group.put_all for new blocks of one chain, none
     keys, domain, once, entry) -> bool                of which is known: False, with nothing done, for all others
   runs(held, keys, standing) -> list of (int, int)    as Domain.runs_in_python, where nothing is hidden
   change(held, keys, tiers, on, off)                  as Holding.change_in_python: states of one group into the masks;
     -> (int, int, bytes, int, int)                    blocks that came, their sum, packed; blocks that went, their sum

   Optional: without it handlers/prefixindex/keys.py, request.py, domain.py and holdings.py do the same in Python, and a differential test
   keeps the two equal. Built by hatch_build.py. Only the limited API of Python 3.11 is used, so one binary serves all.

   XXH3-64 is written after its specification (xxHash, doc/xxhash_spec.md), for lengths of 16 and above 16 bytes.
   Rules: keys.py; spec/performance.md section 5 (where a lookup's time goes). */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__SIZEOF_INT128__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "no 128-bit integers, or not little-endian: Python does this work here"
#endif

typedef uint64_t u64;
typedef uint32_t u32;
typedef unsigned char u8;

#define SEED 1337ULL /* keys.SEED */
#define SMALLEST 64  /* bytes of a block */

/* XXH3-64 --------------------------------------------------------------------------------------------------------- */

#define P32_1 0x9E3779B1ULL
#define P32_2 0x85EBCA77ULL
#define P32_3 0xC2B2AE3DULL
#define P64_1 0x9E3779B185EBCA87ULL
#define P64_2 0xC2B2AE3D27D4EB4FULL
#define P64_3 0x165667B19E3779F9ULL
#define P64_4 0x85EBCA77C2B2AE63ULL
#define P64_5 0x27D4EB2F165667C5ULL

#define SECRET 192

static const u8 secret[SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e
};

static u8 seeded[SECRET]; /* the secret under SEED, for long inputs; made once */

static inline u64 word(const u8 *at) {
    u64 value;
    memcpy(&value, at, 8);
    return value;
}

static inline u64 folded(u64 a, u64 b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (u64)product ^ (u64)(product >> 64);
}

static inline u64 avalanche(u64 hash) {
    hash ^= hash >> 37;
    hash *= 0x165667919E3779F9ULL;
    return hash ^ hash >> 32;
}

static inline u64 mixed(const u8 *at, const u8 *with) {
    return folded(word(at) ^ (word(with) + SEED), word(at + 8) ^ (word(with + 8) - SEED));
}

/* Exactly 16 bytes: a key and a content, or two keys. */
static inline u64 hash_two(u64 first, u64 second) {
    u64 low = first ^ ((word(secret + 24) ^ word(secret + 32)) + SEED);
    u64 high = second ^ ((word(secret + 40) ^ word(secret + 48)) - SEED);
    return avalanche(16 + __builtin_bswap64(low) + high + folded(low, high));
}

static u64 hash_up_to_128(const u8 *at, size_t length) {
    u64 sum = length * P64_1;
    if (length > 96) sum += mixed(at + 48, secret + 96) + mixed(at + length - 64, secret + 112);
    if (length > 64) sum += mixed(at + 32, secret + 64) + mixed(at + length - 48, secret + 80);
    if (length > 32) sum += mixed(at + 16, secret + 32) + mixed(at + length - 32, secret + 48);
    sum += mixed(at, secret) + mixed(at + length - 16, secret + 16);
    return avalanche(sum);
}

static u64 hash_up_to_240(const u8 *at, size_t length) {
    u64 sum = length * P64_1;
    for (size_t i = 0; i < 8; i++) sum += mixed(at + 16 * i, secret + 16 * i);
    sum = avalanche(sum);
    for (size_t i = 8; i < length / 16; i++) sum += mixed(at + 16 * i, secret + 16 * (i - 8) + 3);
    sum += mixed(at + length - 16, secret + 136 - 17);
    return avalanche(sum);
}

static inline void accumulate(u64 *sums, const u8 *at, const u8 *with) {
    for (int i = 0; i < 8; i++) {
        u64 value = word(at + 8 * i), keyed = value ^ word(with + 8 * i);
        sums[i ^ 1] += value;
        sums[i] += (keyed & 0xFFFFFFFF) * (keyed >> 32);
    }
}

static u64 hash_long(const u8 *at, size_t length) {
    enum { STRIPE = 64, STRIPES = (SECRET - STRIPE) / 8, BLOCK = STRIPE * STRIPES };
    u64 sums[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
    size_t blocks = (length - 1) / BLOCK;
    for (size_t b = 0; b < blocks; b++) {
        for (size_t s = 0; s < STRIPES; s++) accumulate(sums, at + b * BLOCK + s * STRIPE, seeded + 8 * s);
        for (int i = 0; i < 8; i++) {
            sums[i] ^= sums[i] >> 47;
            sums[i] = (sums[i] ^ word(seeded + SECRET - STRIPE + 8 * i)) * P32_1;
        }
    }
    size_t stripes = (length - 1 - blocks * BLOCK) / STRIPE;
    for (size_t s = 0; s < stripes; s++) accumulate(sums, at + blocks * BLOCK + s * STRIPE, seeded + 8 * s);
    accumulate(sums, at + length - STRIPE, seeded + SECRET - STRIPE - 7);
    u64 hash = length * P64_1;
    for (int i = 0; i < 4; i++)
        hash += folded(sums[2 * i] ^ word(seeded + 11 + 16 * i), sums[2 * i + 1] ^ word(seeded + 11 + 16 * i + 8));
    return avalanche(hash);
}

static inline u64 hash_block(const u8 *at, size_t length) {
    return length <= 128 ? hash_up_to_128(at, length) : length <= 240 ? hash_up_to_240(at, length) : hash_long(at, length);
}

/* Keys ------------------------------------------------------------------------------------------------------------ */

/* A parent's key: 0 and *absent set for None; -1 with an exception for what is no u64. */
static int read_parent(PyObject *given, u64 *key, int *absent) {
    *absent = given == Py_None;
    *key = 0;
    if (*absent) return 0;
    *key = PyLong_AsUnsignedLongLong(given);
    return *key == (u64)-1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *chain(PyObject *self, PyObject *args) {
    Py_buffer packed;
    Py_ssize_t size;
    PyObject *given = Py_None, *keys = NULL;
    u64 key;
    int absent;
    if (!PyArg_ParseTuple(args, "y*n|O", &packed, &size, &given)) return NULL;
    if (size < SMALLEST / 4 || size > PY_SSIZE_T_MAX / 4) {
        PyErr_SetString(PyExc_ValueError, "block_size must be 16 or more");
    } else if (read_parent(given, &key, &absent) == 0) {
        Py_ssize_t width = 4 * size, count = packed.len / width;
        keys = PyList_New(count);
        for (Py_ssize_t i = 0; keys != NULL && i < count; i++) {
            u64 content = hash_block((const u8 *)packed.buf + i * width, (size_t)width);
            key = absent && i == 0 ? content : hash_two(key, content);
            PyObject *number = PyLong_FromUnsignedLongLong(key);
            if (number == NULL || PyList_SetItem(keys, i, number) < 0) Py_CLEAR(keys);
        }
    }
    PyBuffer_Release(&packed);
    return keys;
}

static PyObject *one(PyObject *self, PyObject *args) {
    Py_buffer block;
    PyObject *given = Py_None, *number = NULL;
    u64 key;
    int absent;
    if (!PyArg_ParseTuple(args, "y*|O", &block, &given)) return NULL;
    if (block.len < SMALLEST) {
        PyErr_SetString(PyExc_ValueError, "a block must be 64 bytes or more");
    } else if (read_parent(given, &key, &absent) == 0) {
        u64 content = hash_block(block.buf, (size_t)block.len);
        number = PyLong_FromUnsignedLongLong(absent ? content : hash_two(key, content));
    }
    PyBuffer_Release(&block);
    return number;
}

/* Token ids ------------------------------------------------------------------------------------------------------- */

static inline const u8 *past_space(const u8 *at, const u8 *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

/* Digits of a number below 2**32 without leading zeros; where they end, or NULL. */
static const u8 *one_by_one(const u8 *at, const u8 *end, u32 *value) {
    const u8 *from = at;
    u64 sum = 0;
    while (at < end && *at >= '0' && *at <= '9' && at - from <= 10) sum = 10 * sum + (u64)(*at++ - '0');
    if (at == from || at - from > 10 || sum > 0xFFFFFFFF || (*from == '0' && at - from > 1)) return NULL;
    *value = (u32)sum;
    return at;
}

/* The same with eight characters at a time, which nearly every token id and the comma after it fit in. */
static inline const u8 *number(const u8 *at, const u8 *end, u32 *value) {
    if (end - at >= 8) {
        u64 digits = word(at) ^ 0x3030303030303030ULL;
        u64 others = (digits | (digits + 0x7676767676767676ULL)) & 0x8080808080808080ULL;
        int count = others ? __builtin_ctzll(others) / 8 : 8;
        if (count > 0 && count < 8 && (count == 1 || *at != '0')) {
            digits <<= 64 - 8 * count;
            digits = (digits * 10 + (digits >> 8)) & 0x00FF00FF00FF00FFULL;
            digits = (digits * 100 + (digits >> 16)) & 0x0000FFFF0000FFFFULL;
            *value = (u32)(digits * 10000 + (digits >> 32));
            return at + count;
        }
    }
    return one_by_one(at, end, value);
}

static PyObject *tokens(PyObject *self, PyObject *args) {
    Py_buffer body;
    Py_ssize_t start;
    if (!PyArg_ParseTuple(args, "y*n", &body, &start)) return NULL;
    const u8 *from = body.buf, *end = from + body.len, *at;
    PyObject *found = NULL;
    u32 *ids = NULL;
    if (start < 0 || start >= body.len || from[start] != '[') goto other;
    at = past_space(from + start + 1, end);
    ids = malloc(((size_t)(end - at) / 2 + 1) * sizeof(u32)); /* a number and a comma are two bytes */
    if (ids == NULL) goto other;
    size_t count = 0;
    for (;;) {
        at = number(at, end, &ids[count]);
        if (at == NULL) goto other;
        count++;
        at = past_space(at, end);
        if (at == end) goto other;
        if (*at == ']') break;
        if (*at != ',') goto other;
        at = past_space(at + 1, end);
        if (at == end) goto other;
    }
    found = Py_BuildValue("(y#n)", (const char *)ids, (Py_ssize_t)(count * sizeof(u32)), (Py_ssize_t)(at + 1 - from));
    free(ids);
    PyBuffer_Release(&body);
    return found;
other:
    free(ids);
    PyBuffer_Release(&body);
    Py_RETURN_NONE;
}

/* Where `*at` begins a MessagePack number from 0 to 2**32 - 1: that, and *at behind it; -1 for anything else. */
static inline int64_t next_number(const u8 **at, const u8 *end) {
    const u8 *from = *at;
    if (from == end) return -1;
    u8 kind = *from++;
    if (kind < 0x80) {
        *at = from;
        return kind;
    }
    if (kind < 0xCC || kind > 0xCF) return -1;
    int width = 1 << (kind - 0xCC);
    if (end - from < width) return -1;
    u64 value = 0;
    for (int i = 0; i < width; i++) value = value << 8 | from[i];
    *at = from + width;
    return value > 0xFFFFFFFF ? -1 : (int64_t)value;
}

static PyObject *packed(PyObject *self, PyObject *wire) {
    Py_buffer given;
    PyObject *found = NULL;
    if (PyObject_GetBuffer(wire, &given, PyBUF_SIMPLE) < 0) return NULL;
    const u8 *at = given.buf, *end = at + given.len;
    int header = given.len == 0 ? 0 : (*at & 0xF0) == 0x90 ? 1 : *at == 0xDC ? 3 : *at == 0xDD ? 5 : 0;
    if (header == 0 || given.len < header) goto other;
    Py_ssize_t count = header == 1 ? *at & 0x0F : 0;
    for (int i = 1; i < header; i++) count = count << 8 | at[i];
    at += header;
    if (count > end - at) goto other; /* a number is a byte at least */
    if ((found = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(u32))) == NULL) goto failed;
    char *to = PyBytes_AsString(found);
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t value = next_number(&at, end);
        if (value < 0) goto other;
        u32 id = (u32)value;
        memcpy(to + i * sizeof(u32), &id, sizeof(u32));
    }
    if (at != end) goto other;
    PyBuffer_Release(&given);
    return found;
other:
    Py_XDECREF(found);
    PyBuffer_Release(&given);
    Py_RETURN_NONE;
failed:
    PyBuffer_Release(&given);
    return NULL;
}

/* New blocks ------------------------------------------------------------------------------------------------------ */

static PyObject *bucket_of(PyObject *buckets, PyObject *key) {
    u64 number = PyLong_AsUnsignedLongLong(key);
    return number == (u64)-1 && PyErr_Occurred() ? NULL : PyList_GetItem(buckets, (Py_ssize_t)(number & 63));
}

static PyObject *store(PyObject *self, PyObject *args) {
    PyObject *nodes, *refs, *buckets, *untold, *make, *hashes, *keys, *domain, *once, *entry;
    if (!PyArg_ParseTuple(args, "O!O!O!O!OO!O!OOO", &PyDict_Type, &nodes, &PyDict_Type, &refs, &PyList_Type, &buckets,
                          &PyDict_Type, &untold, &make, &PyList_Type, &hashes, &PyList_Type, &keys, &domain, &once,
                          &entry))
        return NULL;
    Py_ssize_t count = PyList_Size(keys);
    if (PyList_Size(hashes) != count) {
        PyErr_SetString(PyExc_ValueError, "expected a key for each hash");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *key = PyList_GetItem(keys, i), *bucket = bucket_of(buckets, key);
        int known = bucket == NULL ? -1 : PyDict_Contains(nodes, PyList_GetItem(hashes, i));
        if (known == 0) known = PyDict_Contains(bucket, key);
        if (known < 0) return NULL;
        if (known) Py_RETURN_FALSE;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *hash = PyList_GetItem(hashes, i), *key = PyList_GetItem(keys, i);
        PyObject *node = PyObject_CallFunctionObjArgs(make, domain, key, key, once, NULL);
        int failed = node == NULL || PyDict_SetItem(nodes, hash, node) < 0 || PyDict_SetItem(refs, hash, once) < 0 ||
                     PyDict_SetItem(bucket_of(buckets, key), key, entry) < 0 || PyDict_SetItem(untold, key, Py_None) < 0;
        Py_XDECREF(node);
        if (failed) return NULL;
    }
    Py_RETURN_TRUE;
}

/* The walk -------------------------------------------------------------------------------------------------------- */

/* Add (length, mask) to a list. The reference to `mask` is taken over. */
static int add_run(PyObject *found, Py_ssize_t length, PyObject *mask) {
    PyObject *run = mask == NULL ? NULL : Py_BuildValue("(nN)", length, mask);
    int failed = run == NULL || PyList_Append(found, run) < 0;
    Py_XDECREF(run);
    return failed ? -1 : 0;
}

static PyObject *runs(PyObject *self, PyObject *args) {
    PyObject *held, *keys, *standing, *nothing = NULL, *found = NULL;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyDict_Type, &held, &PyList_Type, &keys, &PyLong_Type, &standing))
        return NULL;
    Py_INCREF(standing);
    if ((nothing = PyLong_FromLong(0)) == NULL || (found = PyList_New(0)) == NULL) goto failed;
    Py_ssize_t count = PyList_Size(keys), length = 0;
    PyObject *last = NULL; /* borrowed: only compared */
    for (; length < count; length++) {
        PyObject *mask = PyDict_GetItemWithError(held, PyList_GetItem(keys, length));
        if (mask == NULL) {
            if (PyErr_Occurred()) goto failed;
            mask = nothing;
        }
        if (mask == last) continue; /* masks are interned: a run of blocks is a run of one object */
        last = mask;
        PyObject *left = PyNumber_And(standing, mask);
        if (left == NULL) goto failed;
        int same = PyObject_RichCompareBool(left, standing, Py_EQ), any = PyObject_IsTrue(left);
        if (same < 0 || any < 0 || (!same && length && add_run(found, length, PyNumber_Xor(standing, left)) < 0)) {
            Py_DECREF(left);
            goto failed;
        }
        Py_DECREF(standing);
        standing = left;
        if (!any) goto done;
    }
    if (length) {
        Py_INCREF(standing);
        if (add_run(found, length, standing) < 0) goto failed;
    }
done:
    Py_DECREF(standing);
    Py_DECREF(nothing);
    return found;
failed:
    Py_XDECREF(found);
    Py_XDECREF(nothing);
    Py_DECREF(standing);
    return NULL;
}

/* Columns --------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject *key, *before; /* before: borrowed from `held`, or NULL; kept alive by the transitions or by `held` */
} Change;

/* The mask after a transition, borrowed; `transitions` fills itself when it is asked for a mask that it does not know,
   and may forget all others then. */
static PyObject *moved(PyObject *transitions, PyObject *mask, PyObject **owned) {
    PyObject *after = PyDict_GetItemWithError(transitions, mask);
    if (after == NULL && !PyErr_Occurred()) after = PyObject_GetItem(transitions, mask);
    else Py_XINCREF(after);
    Py_XDECREF(*owned);
    return *owned = after;
}

/* One direction of a group: keys whose tiers byte is set (or is 0). All masks are read before one is written, so that a
   key named twice counts twice, as in Python. Keys that changed are added to `log`, when it is given. */
static int one_way(PyObject *held, const u8 *keys, const u8 *tiers, size_t count, int setting, PyObject *transitions,
                   Change *work, u64 *log, size_t *changed, unsigned __int128 *sum) {
    size_t used = 0, named = 0;
    PyObject *nothing = PyLong_FromLong(0), *last = NULL, *after = NULL;
    int failed = nothing == NULL;
    *changed = 0;
    *sum = 0;
    for (size_t i = 0; !failed && i < count; i++) {
        if ((tiers[i] != 0) != setting) continue;
        Change *one = &work[used];
        one->key = PyLong_FromUnsignedLongLong(word(keys + 8 * i));
        if (one->key == NULL) {
            failed = 1;
            break;
        }
        used++;
        one->before = PyDict_GetItemWithError(held, one->key);
        if (one->before == NULL && PyErr_Occurred()) failed = 1;
        Py_XINCREF(one->before);
    }
    for (; !failed && named < used; named++) {
        Change *one = &work[named];
        PyObject *before = one->before == NULL ? nothing : one->before;
        if (before != last || after == NULL) {
            if (moved(transitions, before, &after) == NULL) failed = 1;
            last = before;
        }
        if (failed) break;
        int same = after == before ? 1 : PyObject_RichCompareBool(after, before, Py_EQ);
        int any = PyObject_IsTrue(after);
        if (same < 0 || any < 0) failed = 1;
        else if (any) failed = PyDict_SetItem(held, one->key, after) < 0;
        else if (one->before != NULL && PyDict_DelItem(held, one->key) < 0) {
            if (PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear(); /* named twice */
            else failed = 1;
        }
        if (!failed && !same) {
            u64 key = PyLong_AsUnsignedLongLong(one->key);
            if (log != NULL) log[*changed] = key;
            (*changed)++;
            *sum += key;
        }
    }
    for (size_t i = 0; i < used; i++) {
        Py_DECREF(work[i].key);
        Py_XDECREF(work[i].before);
    }
    Py_XDECREF(after);
    Py_XDECREF(nothing);
    return failed ? -1 : 0;
}

static PyObject *wide(unsigned __int128 value) {
    PyObject *high = PyLong_FromUnsignedLongLong((u64)(value >> 64)), *low = PyLong_FromUnsignedLongLong((u64)value);
    PyObject *bits = PyLong_FromLong(64), *moved_up = NULL, *whole = NULL;
    if (high && low && bits && (moved_up = PyNumber_Lshift(high, bits))) whole = PyNumber_Or(moved_up, low);
    Py_XDECREF(high);
    Py_XDECREF(low);
    Py_XDECREF(bits);
    Py_XDECREF(moved_up);
    return whole;
}

static PyObject *change(PyObject *self, PyObject *args) {
    PyObject *held, *on, *off, *result = NULL;
    Py_buffer keys, tiers;
    if (!PyArg_ParseTuple(args, "O!y*y*O!O!", &PyDict_Type, &held, &keys, &tiers, &PyDict_Type, &on, &PyDict_Type, &off))
        return NULL;
    size_t count = (size_t)tiers.len, came = 0, went = 0;
    unsigned __int128 sum_in = 0, sum_out = 0;
    Change *work = malloc((count + 1) * sizeof(Change));
    u64 *log = malloc((count + 1) * sizeof(u64));
    if (keys.len != 8 * tiers.len) {
        PyErr_SetString(PyExc_ValueError, "expected 8 bytes of keys for each tiers byte");
    } else if (work == NULL || log == NULL) {
        PyErr_NoMemory();
    } else if (one_way(held, keys.buf, tiers.buf, count, 1, on, work, log, &came, &sum_in) == 0 &&
               one_way(held, keys.buf, tiers.buf, count, 0, off, work, NULL, &went, &sum_out) == 0) {
        PyObject *total_in = wide(sum_in), *total_out = wide(sum_out);
        if (total_in && total_out)
            result = Py_BuildValue("(nOy#nO)", (Py_ssize_t)came, total_in, (const char *)log,
                                   (Py_ssize_t)(came * sizeof(u64)), (Py_ssize_t)went, total_out);
        Py_XDECREF(total_in);
        Py_XDECREF(total_out);
    }
    free(work);
    free(log);
    PyBuffer_Release(&keys);
    PyBuffer_Release(&tiers);
    return result;
}

/* ----------------------------------------------------------------------------------------------------------------- */

static PyMethodDef functions[] = {
    {"chain", chain, METH_VARARGS, "Keys of every whole block of packed tokens."},
    {"one", one, METH_VARARGS, "The key of exactly one block of packed tokens."},
    {"tokens", tokens, METH_VARARGS, "A JSON array of token ids, packed, and where it ends; or None."},
    {"packed", packed, METH_O, "A MessagePack array of token ids, packed; or None."},
    {"store", store, METH_VARARGS, "New blocks of one chain into a table; False when one of them is known."},
    {"runs", runs, METH_VARARGS, "Leading runs of keys: length, mask of the bits whose run is exactly that long."},
    {"change", change, METH_VARARGS, "States of one group into the masks; what came and what went."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", NULL, 0, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
    for (int i = 0; i < SECRET; i += 16) {
        u64 low = word(secret + i) + SEED, high = word(secret + i + 8) - SEED;
        memcpy(seeded + i, &low, 8);
        memcpy(seeded + i + 8, &high, 8);
    }
    return PyModule_Create(&module);
}
