/* Plain requests to send as records of the log, many by one call. Without it each goes the way of plain_send.py, which
   takes more than these, and makes the same bytes of them.

   Strategy: frames are read one after another, and the first that is out of the ordinary ends the call in front of it.
   A message is measured, allocated and written. What is allocated is bounded by frames that are here whole.

   Only Python's limited API is used (PEP 384), so that one build serves Python 3.11 and every later one. */

#include "_send_header.h"

#define CONTRACT 1 /* as in compiled_sends.py: a change of arguments, results or rules counts one up in both */
#define SEND_MESSAGE 10
#define SEND_MESSAGE_V2 310
#define BODY_BYTES_MAX 16384
#define PROPERTIES_BYTES_MAX 8000
#define PROPERTIES_MAX 64
#define TOPIC_BYTES_MAX 127
#define QUEUE_DIGITS_MAX 9
#define FLAG_DIGITS_MAX 9
#define BORN_DIGITS_MAX 18
#define NAME_END 1
#define VALUE_END 2
#define ORIGIN_BEGIN_BYTES 17 /* version, flag, sysFlag, born; `origin_end` has the rest */
#define ORIGIN_END_BYTES_MAX 24
#define ORIGIN_VERSION 1
#define VARLONG_BYTES_MAX 10
#define ITEMS 7 /* of the tuple of a message */

static const char ORIGIN[] = "rocketmq";
static const char KEYS[] = "KEYS";

/* What is in the text of each property that wants more than to be stored: as in plain_send.py. */
static const char *const MARKS[] = {"DELAY", "TIMER_DEL", "__STARTDELIVERTIME", "TRAN_MSG", "REPLY_TO_CLIENT",
                                    "WAIT\001false\002"};

typedef struct {
    Field name;
    Field value;
} Property;

typedef struct {
    int form;
    Header header;
    const Field *fields;
    Field body;
    Property properties[PROPERTIES_MAX];
    int count;
    Field key;
} Send;

/* ---- what is plain ---- */

static bool is_digits(Field field, int64_t digits_max)
{
    if (field.size < 1 || field.size > digits_max)
        return false;
    for (int64_t index = 0; index < field.size; index++) {
        if (field.bytes[index] < '0' || field.bytes[index] > '9')
            return false;
    }
    return true;
}

/* True for an absent field as well. */
static bool is_default(Field field, const char *text)
{
    return !field.bytes || is_same(field, text);
}

static bool contains(Field text, const char *wanted)
{
    int64_t size = (int64_t)strlen(wanted);
    const uint8_t *at = text.bytes, *end = text.bytes + text.size;
    while (end - at >= size && (at = memchr(at, wanted[0], (size_t)(end - at - size + 1)))) {
        if (memcmp(at, wanted, (size_t)size) == 0)
            return true;
        at++;
    }
    return false;
}

static bool wants_more(Field properties)
{
    for (size_t index = 0; index < sizeof(MARKS) / sizeof(*MARKS); index++) {
        if (contains(properties, MARKS[index]))
            return true;
    }
    return false;
}

/* Of a name that comes twice the last value counts, at the place of the first. */
static bool put_property(Send *send, Property property)
{
    for (int index = 0; index < send->count; index++) {
        Property *other = &send->properties[index];
        if (other->name.size == property.name.size
            && memcmp(other->name.bytes, property.name.bytes, (size_t)property.name.size) == 0) {
            other->value = property.value;
            return true;
        }
    }
    if (send->count >= PROPERTIES_MAX)
        return false;
    send->properties[send->count++] = property;
    return true;
}

/* What has no name or no value is left out. */
static bool split_properties(Send *send, Field text)
{
    const uint8_t *at = text.bytes, *end = text.bytes + text.size;
    while (at < end) {
        const uint8_t *stop = memchr(at, VALUE_END, (size_t)(end - at));
        stop = stop ? stop : end;
        const uint8_t *mark = memchr(at, NAME_END, (size_t)(stop - at));
        if (mark && mark > at
            && !put_property(send, (Property){{at, mark - at}, {mark + 1, stop - mark - 1}}))
            return false;
        at = stop + 1;
    }
    return true;
}

/* The first of KEYS is the record's key. A single one is no header. */
static void take_key(Send *send)
{
    for (int index = 0; index < send->count; index++) {
        Field keys = send->properties[index].value;
        if (!is_same(send->properties[index].name, KEYS))
            continue;
        const uint8_t *space = keys.size ? memchr(keys.bytes, ' ', (size_t)keys.size) : NULL;
        send->key = (Field){keys.bytes, space ? space - keys.bytes : keys.size};
        if (!space) {
            send->count--;
            memmove(&send->properties[index], &send->properties[index + 1],
                    (size_t)(send->count - index) * sizeof(Property));
        }
        return;
    }
}

static bool is_plain(Send *send)
{
    const Header *header = &send->header;
    if (header->flag || (header->code != SEND_MESSAGE && header->code != SEND_MESSAGE_V2))
        return false;
    const Field *fields = send->fields = header->code == SEND_MESSAGE ? header->by_name : header->by_letter;
    Field properties = fields[PROPERTIES];
    if (!fields[TOPIC].bytes || fields[TOPIC].size > TOPIC_BYTES_MAX || !is_digits(fields[QUEUE], QUEUE_DIGITS_MAX)
        || !fields[SYS_FLAG].bytes || !is_same(fields[SYS_FLAG], "0") || !is_digits(fields[BORN], BORN_DIGITS_MAX)
        || (fields[FLAG].bytes && !is_digits(fields[FLAG], FLAG_DIGITS_MAX)) || !is_default(fields[TIMES], "0")
        || !is_default(fields[BATCH], "false") || properties.size > PROPERTIES_BYTES_MAX
        || send->body.size > BODY_BYTES_MAX)
        return false;
    if (!properties.size)
        return true;
    if (wants_more(properties) || !split_properties(send, properties))
        return false;
    take_key(send);
    return true;
}

/* The request in a frame that is here whole, without its length. */
static bool read_send(const uint8_t *frame, int64_t size, uint8_t *arena, Send *send)
{
    if (size < 4)
        return false;
    uint32_t mark = get_32(frame);
    int64_t header_size = mark & 0xFFFFFF;
    if (header_size > size - 4 || header_size > HEADER_BYTES_MAX)
        return false;
    memset(&send->header, 0, sizeof(send->header));
    send->count = 0;
    send->key = (Field){NULL, 0};
    send->form = (int)(mark >> 24);
    send->body = (Field){frame + 4 + header_size, size - 4 - header_size};
    Reader reader = {frame + 4, frame + 4 + header_size, arena};
    if (send->form == JSON ? !read_json(&reader, &send->header)
                           : send->form != BINARY || !read_binary(&reader, &send->header))
        return false;
    return is_plain(send);
}

/* ---- records ---- */

static int varlong_size(int64_t number)
{
    int size = 1;
    for (uint64_t left = (uint64_t)number << 1; left > 127; left >>= 7)
        size++;
    return size;
}

/* A number from 0, zig-zag coded. */
static uint8_t *put_varlong(uint8_t *out, int64_t number)
{
    uint64_t left = (uint64_t)number << 1;
    for (; left > 127; left >>= 7)
        *out++ = (uint8_t)(left | 128);
    *out++ = (uint8_t)left;
    return out;
}

static uint8_t *put_bytes(uint8_t *out, const void *bytes, int64_t size)
{
    if (size)
        memcpy(out, bytes, (size_t)size);
    return out + size;
}

static int64_t sized_bytes(Field field)
{
    return varlong_size(field.size) + field.size;
}

static uint8_t *put_sized(uint8_t *out, Field field)
{
    return put_bytes(put_varlong(out, field.size), field.bytes, field.size);
}

static uint8_t *put_number(uint8_t *out, uint64_t number, int bytes)
{
    for (int index = 0; index < bytes; index++)
        out[index] = (uint8_t)(number >> (8 * (bytes - 1 - index)));
    return out + bytes;
}

static uint8_t *put_origin(uint8_t *out, const Send *send, Field origin_end)
{
    *out++ = ORIGIN_VERSION;
    out = put_number(out, (uint64_t)number_of(send->fields[FLAG]), 4);
    out = put_number(out, 0, 4); /* sysFlag */
    out = put_number(out, (uint64_t)number_of(send->fields[BORN]), 8);
    return put_bytes(out, origin_end.bytes, origin_end.size);
}

/* The record of a message behind its offset: the same bytes as `record_tail` of packing.py makes. */
static PyObject *make_tail(const Send *send, Field origin_end)
{
    Field origin_name = {(const uint8_t *)ORIGIN, sizeof(ORIGIN) - 1};
    int64_t origin_size = ORIGIN_BEGIN_BYTES + origin_end.size;
    int64_t size = (send->key.size ? sized_bytes(send->key) : 1) + sized_bytes(send->body)
                   + varlong_size(send->count + 1) + sized_bytes(origin_name) + varlong_size(origin_size)
                   + origin_size;
    for (int index = 0; index < send->count; index++)
        size += sized_bytes(send->properties[index].name) + sized_bytes(send->properties[index].value);
    PyObject *tail = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (!tail)
        return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(tail);
    if (send->key.size)
        out = put_sized(out, send->key);
    else
        *out++ = 1; /* null in place of a length */
    out = put_varlong(put_sized(out, send->body), send->count + 1);
    for (int index = 0; index < send->count; index++)
        out = put_sized(put_sized(out, send->properties[index].name), send->properties[index].value);
    put_origin(put_varlong(put_sized(out, origin_name), origin_size), send, origin_end);
    return tail;
}

/* The topic and the digits of the queue, with a zero between them. */
static PyObject *make_place(const Send *send)
{
    Field topic = send->fields[TOPIC], queue = send->fields[QUEUE];
    PyObject *place = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(topic.size + 1 + queue.size));
    if (!place)
        return NULL;
    uint8_t *out = put_bytes((uint8_t *)PyBytes_AsString(place), topic.bytes, topic.size);
    *out++ = 0;
    put_bytes(out, queue.bytes, queue.size);
    return place;
}

/* ---- from Python and to it ---- */

static PyObject *make_message(const Send *send, Field origin_end, int64_t frame_end)
{
    PyObject *message = PyTuple_New(ITEMS);
    PyObject *items[ITEMS] = {
        PyLong_FromLongLong(frame_end),
        make_place(send),
        PyLong_FromLong(send->form),
        PyLong_FromLongLong(send->header.code),
        PyLong_FromLongLong(send->header.opaque),
        make_tail(send, origin_end),
        PyLong_FromLongLong(send->body.size),
    };
    bool is_whole = message != NULL;
    for (int index = 0; index < ITEMS; index++)
        is_whole = is_whole && items[index];
    for (int index = 0; index < ITEMS; index++) {
        if (is_whole)
            PyTuple_SetItem(message, index, items[index]);
        else
            Py_XDECREF(items[index]);
    }
    if (!is_whole)
        Py_CLEAR(message);
    return message;
}

static PyObject *read_sends(Field data, Field origin_end, int64_t frames_max)
{
    uint8_t arena[HEADER_BYTES_MAX];
    Send send;
    int64_t at = 0;
    PyObject *found = PyList_New(0);
    while (found && frames_max-- > 0 && data.size - at >= 4) {
        int64_t size = get_32(data.bytes + at);
        /* Cut off, or longer than anything plain. */
        if (size > data.size - at - 4 || !read_send(data.bytes + at + 4, size, arena, &send))
            break;
        at += 4 + size;
        PyObject *message = make_message(&send, origin_end, at);
        if (!message || PyList_Append(found, message) < 0)
            Py_CLEAR(found);
        Py_XDECREF(message);
    }
    return found;
}

/* What a connection has read, the end of its messages' origins, and how many frames are enough. */
static PyObject *plain_sends(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    Py_buffer data, origin_end;
    PyObject *found = NULL;
    (void)module;
    if (given != 3) {
        PyErr_Format(PyExc_TypeError, "3 arguments are needed, %zd were given", given);
        return NULL;
    }
    int64_t frames_max = PyLong_AsLongLong(arguments[2]);
    if (frames_max == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[1], &origin_end, PyBUF_SIMPLE) == 0) {
        if (origin_end.len > ORIGIN_END_BYTES_MAX)
            PyErr_SetString(PyExc_ValueError, "the end of an origin is too long");
        else
            found = read_sends((Field){data.buf, data.len}, (Field){origin_end.buf, origin_end.len}, frames_max);
        PyBuffer_Release(&origin_end);
    }
    PyBuffer_Release(&data);
    return found;
}

static uint8_t *put_records(uint8_t *out, PyObject *tails, Py_ssize_t count)
{
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *tail = PyList_GetItem(tails, index);
        int64_t size = PyBytes_Size(tail);
        out = put_varlong(out, 2 + varlong_size(index) + size);
        *out++ = 0; /* no attributes */
        *out++ = 0; /* the timestamp of the batch */
        out = put_bytes(put_varlong(out, index), PyBytes_AsString(tail), size);
    }
    return out;
}

/* The records of a batch, by a list of their tails: each with its size, and the offset of its place. */
static PyObject *joined_records(PyObject *module, PyObject *tails)
{
    (void)module;
    if (!PyList_Check(tails)) {
        PyErr_SetString(PyExc_TypeError, "a list of bytes is needed");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(tails);
    int64_t bytes = 0;
    for (Py_ssize_t index = 0; index < count; index++) {
        int64_t size = PyBytes_Size(PyList_GetItem(tails, index));
        if (size < 0)
            return NULL; /* no bytes, as it says */
        int64_t fields = 2 + varlong_size(index) + size;
        bytes += varlong_size(fields) + fields;
    }
    PyObject *records = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (records)
        put_records((uint8_t *)PyBytes_AsString(records), tails, count);
    return records;
}

/* ---- the module ---- */

static int fill_module(PyObject *module)
{
    return PyModule_AddIntConstant(module, "CONTRACT", CONTRACT);
}

static PyMethodDef methods[] = {
    {"plain_sends", (PyCFunction)(void (*)(void))plain_sends, METH_FASTCALL, NULL},
    {"joined_records", joined_records, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_plain_send",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__plain_send(void)
{
    return PyModuleDef_Init(&definition);
}
