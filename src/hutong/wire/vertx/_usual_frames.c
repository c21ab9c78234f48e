/* The usual frames between the nodes of a Vert.x cluster. `take_frames` and `make_frame` are the functions of
   usual_frames.py, compiled: the same arguments, the same results.

   Strategy: every length is compared with what is left before anything is read or made. A frame that is out of the
   ordinary, cut off or broken ends a run in front of it, and the careful decoder finds out what it is. A body that is
   out of the ordinary gives None, and the careful encoder says why.

   Only Python's limited API is used (PEP 384), so that one build serves Python 3.11 and every later one. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CONTRACT 2 /* as in usual_frames.py: a change of arguments, results or rules counts one up in both */

/* These are those of cluster_frames.py and wire_versions.py. */
#define LENGTH_BYTES 4
#define HEAD_BYTES 3 /* version, codec, kind */
#define NO_HEADERS 4
#define ADDRESS_BYTES_MAX 4096
#define SENDER_BYTES_MAX 260 /* of the field that names the sender */
#define FRAME_BYTES_MAX (16 * 1024 * 1024)
#define COUNT_MAX 65536 /* of frames in one call: a frame has more than one byte, so a list this long was really sent */
#define DIGITS_MAX 19   /* of the number of a request: 64 bits hold all that have so many */

enum { CODEC_NULL = 0, CODEC_PING = 1, CODEC_BOOLEAN = 3, CODEC_INT = 5, CODEC_LONG = 6, CODEC_DOUBLE = 8,
       CODEC_STRING = 9, CODEC_BUFFER = 11 };

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

typedef struct {
    const uint8_t *bytes;
    Py_ssize_t size;
} Text;

/* ---- bytes to values ---- */

static int32_t int_at(const uint8_t *bytes)
{
    return (int32_t)((uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3]);
}

/* A length and so many bytes; false where they are not there, or more than allowed. */
static bool read_text(Cursor *cursor, int32_t size_max, Text *text)
{
    if (cursor->end - cursor->at < LENGTH_BYTES)
        return false;
    int32_t size = int_at(cursor->at);
    if (size < 0 || size > size_max || size > cursor->end - cursor->at - LENGTH_BYTES)
        return false;
    text->bytes = cursor->at + LENGTH_BYTES;
    text->size = size;
    cursor->at += LENGTH_BYTES + size;
    return true;
}

/* Goes behind these bytes; false where others are there. */
static bool skip_field(Cursor *cursor, const Text *field)
{
    if (field->size > cursor->end - cursor->at || memcmp(cursor->at, field->bytes, (size_t)field->size) != 0)
        return false;
    cursor->at += field->size;
    return true;
}

static bool is_same(const Text *one, const Text *other)
{
    return one->size == other->size && memcmp(one->bytes, other->bytes, (size_t)one->size) == 0;
}

typedef enum { MADE, UNUSUAL, FAILED } Outcome;

/* Text that is not UTF-8 is out of the ordinary; memory that is short is an error. */
static Outcome as_string(const uint8_t *bytes, Py_ssize_t size, PyObject **made)
{
    *made = PyUnicode_DecodeUTF8((const char *)bytes, size, "strict");
    if (*made)
        return MADE;
    if (!PyErr_ExceptionMatches(PyExc_UnicodeDecodeError))
        return FAILED;
    PyErr_Clear();
    return UNUSUAL;
}

static Outcome made_or_failed(PyObject *made)
{
    return made ? MADE : FAILED;
}

static Outcome counted_body(int codec, const Cursor *rest, PyObject **body)
{
    Py_ssize_t size = rest->end - rest->at - LENGTH_BYTES;
    if (size < 0 || int_at(rest->at) != size)
        return UNUSUAL;
    if (codec == CODEC_STRING)
        return as_string(rest->at + LENGTH_BYTES, size, body);
    *body = PyBytes_FromStringAndSize((const char *)rest->at + LENGTH_BYTES, size);
    return made_or_failed(*body);
}

static Outcome double_body(const Cursor *rest, PyObject **body)
{
    uint64_t bits = (uint64_t)(uint32_t)int_at(rest->at) << 32 | (uint32_t)int_at(rest->at + 4);
    double number;
    memcpy(&number, &bits, sizeof number);
    *body = PyFloat_FromDouble(number);
    return made_or_failed(*body);
}

/* The value of a body whose codec implies its type; the bytes of every other. */
static Outcome read_body(int codec, const Cursor *rest, PyObject **body)
{
    Py_ssize_t size = rest->end - rest->at;
    switch (codec) {
    case CODEC_STRING:
    case CODEC_BUFFER:
        return counted_body(codec, rest, body);
    case CODEC_NULL:
        if (size != 0)
            return UNUSUAL;
        Py_INCREF(Py_None);
        *body = Py_None;
        return MADE;
    case CODEC_BOOLEAN: /* 0 is true */
        if (size != 1 || rest->at[0] > 1)
            return UNUSUAL;
        *body = PyBool_FromLong(rest->at[0] == 0);
        return MADE;
    case CODEC_INT:
        if (size != 4)
            return UNUSUAL;
        *body = PyLong_FromLong(int_at(rest->at));
        return made_or_failed(*body);
    case CODEC_DOUBLE:
        return size == 8 ? double_body(rest, body) : UNUSUAL;
    default:
        *body = PyBytes_FromStringAndSize((const char *)rest->at, size);
        return made_or_failed(*body);
    }
}

/* The number of the request that is answered, or the address. */
static Outcome read_address(const Text *text, const Text *prefix, PyObject **address)
{
    if (text->size < prefix->size || memcmp(text->bytes, prefix->bytes, (size_t)prefix->size) != 0)
        return as_string(text->bytes, text->size, address);
    Py_ssize_t digits = text->size - prefix->size;
    if (digits < 1 || digits > DIGITS_MAX)
        return UNUSUAL;
    uint64_t number = 0;
    for (const uint8_t *at = text->bytes + prefix->size; at < text->bytes + text->size; at++) {
        if (*at < '0' || *at > '9')
            return UNUSUAL;
        number = number * 10 + (uint64_t)(*at - '0');
    }
    *address = PyLong_FromUnsignedLongLong(number);
    return made_or_failed(*address);
}

static Outcome read_reply(const Text *text, PyObject **reply)
{
    if (text->size)
        return as_string(text->bytes, text->size, reply);
    Py_INCREF(Py_None);
    *reply = Py_None;
    return MADE;
}

typedef struct {
    int version;
    Text sender; /* the field that names it in each frame */
    Text prefix;
    Text last; /* the address before, and its string: most frames of a run have the same */
    PyObject *last_address;
} Run;

static Outcome shared_address(const Text *text, Run *run, PyObject **address)
{
    if (run->last_address && is_same(text, &run->last)) {
        Py_INCREF(run->last_address);
        *address = run->last_address;
        return MADE;
    }
    Outcome outcome = read_address(text, &run->prefix, address);
    if (outcome == MADE && PyUnicode_Check(*address)) {
        Py_XDECREF(run->last_address);
        Py_INCREF(*address);
        run->last = *text;
        run->last_address = *address;
    }
    return outcome;
}

/* One frame without its length. */
static Outcome read_frame(Cursor frame, Run *run, PyObject **made)
{
    Text address, reply;
    if (frame.end - frame.at < HEAD_BYTES || frame.at[0] != run->version || frame.at[1] > 127
        || frame.at[1] == CODEC_PING)
        return UNUSUAL;
    int codec = frame.at[1];
    PyObject *is_send = frame.at[2] ? Py_False : Py_True;
    frame.at += HEAD_BYTES;
    if (!read_text(&frame, ADDRESS_BYTES_MAX, &address) || !read_text(&frame, ADDRESS_BYTES_MAX, &reply)
        || !skip_field(&frame, &run->sender) || frame.end - frame.at < LENGTH_BYTES || int_at(frame.at) != NO_HEADERS)
        return UNUSUAL;
    frame.at += LENGTH_BYTES;
    PyObject *parts[3] = {NULL, NULL, NULL};
    Outcome outcome = shared_address(&address, run, &parts[0]);
    if (outcome == MADE)
        outcome = read_reply(&reply, &parts[1]);
    if (outcome == MADE)
        outcome = read_body(codec, &frame, &parts[2]);
    if (outcome == MADE) {
        *made = Py_BuildValue("(iOOOO)", codec, parts[0], parts[1], parts[2], is_send);
        outcome = made_or_failed(*made);
    }
    for (int index = 0; index < 3; index++)
        Py_XDECREF(parts[index]);
    return outcome;
}

static PyObject *read_frames(Cursor data, Run *run, long long count_max, long long frame_bytes_max)
{
    const uint8_t *begin = data.at;
    PyObject *frames = PyList_New(0);
    while (frames && PyList_Size(frames) < count_max && data.end - data.at >= LENGTH_BYTES) {
        int32_t size = int_at(data.at);
        if (size < 1 || size > frame_bytes_max || size > data.end - data.at - LENGTH_BYTES)
            break;
        Cursor frame = {data.at + LENGTH_BYTES, data.at + LENGTH_BYTES + size};
        PyObject *made = NULL;
        Outcome outcome = read_frame(frame, run, &made);
        if (outcome == UNUSUAL)
            break;
        if (outcome == FAILED || PyList_Append(frames, made) < 0)
            Py_CLEAR(frames);
        Py_XDECREF(made);
        data.at = frame.end;
    }
    return frames ? Py_BuildValue("(Nn)", frames, (Py_ssize_t)(data.at - begin)) : NULL;
}

/* data, version, sender, the prefix of the addresses of own requests, how many frames, and how large one may be. */
static PyObject *take_frames(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    Py_buffer buffers[3];
    PyObject *found = NULL;
    int held = 0;
    (void)module;
    if (given != 6) {
        PyErr_Format(PyExc_TypeError, "6 arguments are needed, %zd were given", given);
        return NULL;
    }
    long long version = PyLong_AsLongLong(arguments[1]);
    long long count_max = PyLong_AsLongLong(arguments[4]), frame_bytes_max = PyLong_AsLongLong(arguments[5]);
    if (PyErr_Occurred())
        return NULL;
    PyObject *given_bytes[3] = {arguments[0], arguments[2], arguments[3]};
    while (held < 3 && PyObject_GetBuffer(given_bytes[held], &buffers[held], PyBUF_SIMPLE) == 0)
        held++;
    if (held == 3) {
        Run run = {(int)version, {buffers[1].buf, buffers[1].len}, {buffers[2].buf, buffers[2].len}, {NULL, 0}, NULL};
        Cursor data = {buffers[0].buf, (const uint8_t *)buffers[0].buf + buffers[0].len};
        found = read_frames(data, &run, count_max < COUNT_MAX ? count_max : COUNT_MAX, frame_bytes_max);
        Py_XDECREF(run.last_address);
    }
    while (held > 0)
        PyBuffer_Release(&buffers[--held]);
    return found;
}

/* ---- values to bytes ---- */

static uint8_t *put_int(uint8_t *out, uint32_t number)
{
    out[0] = (uint8_t)(number >> 24);
    out[1] = (uint8_t)(number >> 16);
    out[2] = (uint8_t)(number >> 8);
    out[3] = (uint8_t)number;
    return out + 4;
}

static uint8_t *put_bytes(uint8_t *out, const void *bytes, Py_ssize_t size)
{
    if (size > 0)
        memcpy(out, bytes, (size_t)size);
    return out + size;
}

/* A body as its codec has it: a small one in `small`, a counted one where it is. */
typedef struct {
    int codec;
    bool is_counted;
    Text text;
    uint8_t small[8];
} Body;

static void set_small(Body *body, int codec, uint64_t number, int size)
{
    body->codec = codec;
    for (int index = 0; index < size; index++)
        body->small[index] = (uint8_t)(number >> 8 * (size - 1 - index));
    body->text.bytes = body->small;
    body->text.size = size;
}

/* A string as UTF-8, which Python keeps with it; false where it has none. */
static bool text_of(PyObject *string, Text *text)
{
    text->bytes = (const uint8_t *)PyUnicode_AsUTF8AndSize(string, &text->size);
    if (text->bytes)
        return true;
    PyErr_Clear();
    return false;
}

static bool number_body(PyObject *value, Body *body)
{
    int overflow = 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow)
        return false;
    bool is_int = number >= INT32_MIN && number <= INT32_MAX;
    set_small(body, is_int ? CODEC_INT : CODEC_LONG, (uint64_t)number, is_int ? 4 : 8);
    return true;
}

/* False for a type or value that is out of the ordinary. The exact type decides, as everywhere in the bus. */
static bool body_of(PyObject *value, Body *body)
{
    body->is_counted = false;
    if (PyUnicode_CheckExact(value)) {
        body->codec = CODEC_STRING;
        body->is_counted = true;
        return text_of(value, &body->text);
    }
    if (PyBytes_CheckExact(value)) {
        body->codec = CODEC_BUFFER;
        body->is_counted = true;
        body->text.bytes = (const uint8_t *)PyBytes_AsString(value);
        body->text.size = PyBytes_Size(value);
        return true;
    }
    if (value == Py_None) {
        set_small(body, CODEC_NULL, 0, 0);
        return true;
    }
    if (value == Py_True || value == Py_False) {
        set_small(body, CODEC_BOOLEAN, value == Py_False, 1);
        return true;
    }
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AsDouble(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        set_small(body, CODEC_DOUBLE, bits, 8);
        return true;
    }
    return PyLong_CheckExact(value) && number_body(value, body);
}

/* Decimal digits at the end of `digits`. */
static Text digits_of(uint64_t number, uint8_t digits[DIGITS_MAX + 1])
{
    uint8_t *at = digits + DIGITS_MAX + 1;
    do {
        *--at = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number);
    return (Text){at, digits + DIGITS_MAX + 1 - at};
}

static PyObject *frame_of(int version, const Text *address, const Text *prefix, const Text *digits,
                          const Text *sender, const Body *body)
{
    Py_ssize_t reply = digits->size ? prefix->size + digits->size : 0;
    Py_ssize_t counted = body->is_counted ? LENGTH_BYTES : 0;
    int64_t size = HEAD_BYTES + 3 * (int64_t)LENGTH_BYTES + address->size + reply + sender->size + counted
                   + body->text.size;
    if (address->size > ADDRESS_BYTES_MAX || reply > ADDRESS_BYTES_MAX || sender->size > SENDER_BYTES_MAX || size > FRAME_BYTES_MAX)
        Py_RETURN_NONE;
    PyObject *made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size + LENGTH_BYTES);
    if (!made)
        return NULL;
    uint8_t *out = put_int((uint8_t *)PyBytes_AsString(made), (uint32_t)size);
    *out++ = (uint8_t)version;
    *out++ = (uint8_t)body->codec;
    *out++ = 0;
    out = put_bytes(put_int(out, (uint32_t)address->size), address->bytes, address->size);
    out = put_int(out, (uint32_t)reply);
    if (reply)
        out = put_bytes(put_bytes(out, prefix->bytes, prefix->size), digits->bytes, digits->size);
    out = put_bytes(out, sender->bytes, sender->size);
    out = put_int(out, NO_HEADERS);
    if (counted)
        out = put_int(out, (uint32_t)body->text.size);
    put_bytes(out, body->text.bytes, body->text.size);
    return made;
}

/* version, address, the prefix of the addresses of own requests, the number of the request or -1, sender, body. */
static PyObject *make_frame(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    if (given != 6 || !PyBytes_Check(arguments[2]) || !PyBytes_Check(arguments[4])) {
        PyErr_SetString(PyExc_TypeError, "6 arguments are needed, of which the third and the fifth are bytes");
        return NULL;
    }
    long long version = PyLong_AsLongLong(arguments[0]), number = PyLong_AsLongLong(arguments[3]);
    if (PyErr_Occurred())
        return NULL;
    Text address, digits = {NULL, 0};
    Text prefix = {(const uint8_t *)PyBytes_AsString(arguments[2]), PyBytes_Size(arguments[2])};
    Text sender = {(const uint8_t *)PyBytes_AsString(arguments[4]), PyBytes_Size(arguments[4])};
    uint8_t written[DIGITS_MAX + 1];
    Body body;
    if (!PyUnicode_Check(arguments[1]) || !text_of(arguments[1], &address) || !body_of(arguments[5], &body))
        Py_RETURN_NONE;
    if (number >= 0)
        digits = digits_of((uint64_t)number, written);
    return frame_of((int)version, &address, &prefix, &digits, &sender, &body);
}

/* ---- the module ---- */

static int fill_module(PyObject *module)
{
    return PyModule_AddIntConstant(module, "CONTRACT", CONTRACT);
}

static PyMethodDef methods[] = {
    {"take_frames", (PyCFunction)(void (*)(void))take_frames, METH_FASTCALL, NULL},
    {"make_frame", (PyCFunction)(void (*)(void))make_frame, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_usual_frames",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__usual_frames(void)
{
    return PyModuleDef_Init(&definition);
}
