/* Records as the stored messages of RocketMQ's clients. `stored_run` is the function of stored_runs.py, compiled: the same
   arguments as `python_run` has after they are taken apart, the same results. `stored_batches` goes through many batches
   by one call; without it each of them goes the way of stored_runs.py (plain_batches.py).

   Strategy: records are read and measured first, then everything is allocated at once, then the messages are written.
   What is allocated is bounded by records that were read whole. A record that is out of the ordinary, or broken, ends
   a run in front of it, and many batches in front of its own.

   Only Python's limited API is used (PEP 384), so that one build serves Python 3.11 and every later one. */

#include "_stored_message.h"

#define CONTRACT 2 /* as in stored_runs.py: a change of arguments, results or rules counts one up in both */
#define MESSAGES_MAX_MAX 65536 /* of one call for many batches: their table is allocated at once */

/* ---- from Python and to it ---- */

/* The messages, and three columns of numbers of this machine: offsets, ends, and where properties begin. */
static bool make_bytes(const Message *messages, int64_t count, int64_t bytes, const Facts *facts, PyObject **stored,
                       PyObject **places)
{
    *stored = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    *places = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * 3 * (int64_t)sizeof(int64_t)));
    if (!*stored || !*places) {
        Py_CLEAR(*stored);
        Py_CLEAR(*places);
        return false;
    }
    uint8_t *begin = (uint8_t *)PyBytes_AsString(*stored), *columns = (uint8_t *)PyBytes_AsString(*places);
    int64_t end = 0;
    for (int64_t index = 0; index < count; index++) {
        int64_t text = put_message(begin + end, &messages[index], facts) - begin;
        end += messages[index].bytes;
        const int64_t numbers[3] = {messages[index].offset, end, text};
        for (int64_t column = 0; column < 3; column++)
            memcpy(columns + (column * count + index) * (int64_t)sizeof(int64_t), &numbers[column], sizeof(int64_t));
    }
    return true;
}

enum { POSITION, COUNT, BASE_OFFSET, BASE_TIMESTAMP, IS_APPEND_TIME, APPEND_TIME, QUEUE_ID, PHYSICAL_BASE, FROM_OFFSET,
       MESSAGES_MAX, BYTES_MAX, NUMBERS };

static PyObject *run(const Py_buffer *data, const int64_t *numbers, const Facts *facts)
{
    const uint8_t *begin = data->buf;
    Cursor cursor = {begin + numbers[POSITION], begin + data->len};
    int64_t room = (cursor.end - cursor.at) / RECORD_BYTES_MIN + 1;
    int64_t messages_max = numbers[MESSAGES_MAX] < room ? numbers[MESSAGES_MAX] : room;
    if (numbers[COUNT] < messages_max)
        messages_max = numbers[COUNT];
    Message *messages = PyMem_Malloc((size_t)messages_max * sizeof(Message));
    if (!messages)
        return PyErr_NoMemory();
    int64_t walked = 0, count = 0, bytes = 0;
    while (walked < numbers[COUNT] && count < messages_max && bytes < numbers[BYTES_MAX]) {
        Cursor next = cursor;
        bool is_skipped = false;
        if (!read_record(&next, facts, &messages[count], &is_skipped))
            break;
        cursor = next;
        walked++;
        if (!is_skipped)
            bytes += messages[count++].bytes;
    }
    PyObject *stored, *places;
    bool is_made = make_bytes(messages, count, bytes, facts, &stored, &places);
    PyMem_Free(messages);
    return is_made ? Py_BuildValue("(NNLL)", stored, places, (long long)(cursor.at - begin), (long long)walked) : NULL;
}

static bool read_numbers(PyObject *const *arguments, int64_t *numbers, int wanted)
{
    for (int index = 0; index < wanted; index++) {
        numbers[index] = PyLong_AsLongLong(arguments[index]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return false;
    }
    return true;
}

static PyObject *checked_run(const Py_buffer *data, const Py_buffer *topic, const Py_buffer *host,
                             const int64_t *numbers)
{
    if (topic->len > TOPIC_BYTES_MAX || host->len != HOST_BYTES || numbers[POSITION] < 0
        || numbers[POSITION] > data->len || numbers[COUNT] < 0 || numbers[MESSAGES_MAX] < 0) {
        PyErr_SetString(PyExc_ValueError, "a topic, host, position or count is out of its bounds");
        return NULL;
    }
    Facts facts = {
        .base_offset = numbers[BASE_OFFSET],
        .base_timestamp_ms = numbers[BASE_TIMESTAMP],
        .append_ms = numbers[APPEND_TIME],
        .is_append_time = numbers[IS_APPEND_TIME] != 0,
        .queue_id = numbers[QUEUE_ID],
        .physical_base = numbers[PHYSICAL_BASE],
        .from_offset = numbers[FROM_OFFSET],
        .topic = {topic->buf, topic->len},
        .host = host->buf,
    };
    return run(data, numbers, &facts);
}

/* data, topic and host, then the numbers in the order of their names above. */
static PyObject *stored_run(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t numbers[NUMBERS];
    Py_buffer buffers[3];
    PyObject *found = NULL;
    int held = 0;
    (void)module;
    if (given != NUMBERS + 3) {
        PyErr_Format(PyExc_TypeError, "%d arguments are needed, %zd were given", NUMBERS + 3, given);
        return NULL;
    }
    if (!read_numbers(arguments + 3, numbers, NUMBERS))
        return NULL;
    while (held < 3 && PyObject_GetBuffer(arguments[held], &buffers[held], PyBUF_SIMPLE) == 0)
        held++;
    if (held == 3)
        found = checked_run(&buffers[0], &buffers[1], &buffers[2], numbers);
    while (held > 0)
        PyBuffer_Release(&buffers[--held]);
    return found;
}

/* ---- many batches ---- */

#define BATCH_HEADER_BYTES 61
#define LENGTH_END 12 /* the length of a batch counts what follows it */
#define BATCH_MAGIC 2
#define COMPRESSION_MASK 7
#define LOG_APPEND_TIME 8
#define CONTROL 0x20

static uint64_t get_64(const uint8_t *bytes)
{
    return (uint64_t)get_32(bytes) << 32 | get_32(bytes + 4);
}

/* What is found so far. `end` is how many messages there is room for in the table. */
typedef struct {
    Message *messages;
    int64_t end;
    int64_t bytes_max;
    int64_t count;
    int64_t bytes;
    int64_t next_offset;
    int64_t walked_bytes; /* of the log, without records in front of the offset */
} Found;

static bool is_full(const Found *found)
{
    return found->count >= found->end || found->bytes >= found->bytes_max;
}

typedef enum { WHOLE, FULL, NOT_PLAIN } Outcome;

/* The records of one batch, whose header says that they are plain. Offsets that do not rise are not. */
static Outcome read_batch_records(Cursor *cursor, int64_t count, const Facts *facts, Found *found)
{
    int64_t previous = facts->base_offset;
    for (int64_t index = 0; index < count; index++) {
        bool is_skipped = false;
        const uint8_t *begin = cursor->at;
        Message *message = &found->messages[found->count];
        if (!read_record(cursor, facts, message, &is_skipped) || message->offset == INT64_MAX
            || (index ? message->offset <= previous : message->offset < previous))
            return NOT_PLAIN;
        previous = message->offset;
        if (is_skipped) {
            found->walked_bytes -= cursor->at - begin;
            continue;
        }
        found->count++;
        found->bytes += message->bytes;
        found->next_offset = message->offset + 1;
        if (is_full(found))
            return FULL;
    }
    return cursor->at == cursor->end ? WHOLE : NOT_PLAIN;
}

/* One batch, and how many bytes it has. After NOT_PLAIN nothing of it is found. */
static Outcome read_batch(const uint8_t *batch, int64_t size, const Facts *queue, Found *found)
{
    uint32_t attributes = (uint32_t)batch[21] << 8 | batch[22];
    int64_t count = (int32_t)get_32(batch + 57), last_offset;
    if (attributes & (COMPRESSION_MASK | CONTROL) || count < 0)
        return NOT_PLAIN;
    Facts facts = *queue;
    facts.base_offset = (int64_t)get_64(batch);
    facts.base_timestamp_ms = (int64_t)get_64(batch + 27);
    facts.append_ms = (int64_t)get_64(batch + 35);
    facts.is_append_time = attributes & LOG_APPEND_TIME;
    if (!add(facts.base_offset, (int32_t)get_32(batch + 23), &last_offset) || last_offset == INT64_MAX)
        return NOT_PLAIN;
    Found before = *found;
    Cursor cursor = {batch + BATCH_HEADER_BYTES, batch + size};
    Outcome outcome = read_batch_records(&cursor, count, &facts, found);
    if (outcome == NOT_PLAIN) {
        *found = before;
        return NOT_PLAIN;
    }
    found->walked_bytes += cursor.at - batch;
    if (outcome == WHOLE && last_offset + 1 > found->next_offset)
        found->next_offset = last_offset + 1;
    return outcome;
}

/* The batches of one buffer from a position on, which moves. */
static Outcome read_batches(const uint8_t *data, int64_t size, int64_t *position, int64_t batch_bytes_max,
                            const Facts *queue, Found *found)
{
    while (size - *position >= BATCH_HEADER_BYTES) {
        const uint8_t *batch = data + *position;
        int64_t length = LENGTH_END + (int64_t)(int32_t)get_32(batch + 8);
        if (batch[16] != BATCH_MAGIC || length < BATCH_HEADER_BYTES)
            return NOT_PLAIN;
        if (length > size - *position) /* cut off, and left out */
            break;
        if (length > batch_bytes_max)
            return NOT_PLAIN;
        Outcome outcome = read_batch(batch, length, queue, found);
        if (outcome != WHOLE)
            return outcome;
        *position += length;
    }
    *position = size;
    return WHOLE;
}

enum { BUFFER_INDEX, BUFFER_POSITION, NEXT_OFFSET, THEIR_QUEUE, THEIR_BASE, THEIR_FROM, THEIR_MESSAGES, THEIR_BYTES,
       BATCH_BYTES_MAX, THEIR_NUMBERS };

/* The buffers are held until the messages are written, which point into them. */
typedef struct {
    Py_buffer *buffers;
    Py_ssize_t count;
} Held;

static void release(Held *held)
{
    while (held->count > 0)
        PyBuffer_Release(&held->buffers[--held->count]);
    PyMem_Free(held->buffers);
}

static bool read_buffers(PyObject *list, int64_t *numbers, const Facts *queue, Found *found, Held *held)
{
    for (; numbers[BUFFER_INDEX] < PyList_Size(list); numbers[BUFFER_INDEX]++, numbers[BUFFER_POSITION] = 0) {
        Py_buffer *buffer = &held->buffers[held->count];
        if (PyObject_GetBuffer(PyList_GetItem(list, (Py_ssize_t)numbers[BUFFER_INDEX]), buffer, PyBUF_SIMPLE) < 0)
            return false;
        held->count++;
        if (numbers[BUFFER_POSITION] > buffer->len) {
            PyErr_SetString(PyExc_ValueError, "the position is behind the buffer");
            return false;
        }
        if (read_batches(buffer->buf, buffer->len, &numbers[BUFFER_POSITION], numbers[BATCH_BYTES_MAX], queue, found)
            != WHOLE)
            break;
    }
    return true;
}

static PyObject *run_batches(PyObject *list, int64_t *numbers, const Facts *queue)
{
    Py_ssize_t count = PyList_Size(list);
    Held held = {PyMem_Malloc((size_t)(count + 1) * sizeof(Py_buffer)), 0};
    Found found = {PyMem_Malloc((size_t)numbers[THEIR_MESSAGES] * sizeof(Message)), numbers[THEIR_MESSAGES],
                   numbers[THEIR_BYTES], 0, 0, numbers[NEXT_OFFSET], 0};
    PyObject *answer = NULL, *stored = NULL;
    if (!held.buffers || !found.messages) {
        PyErr_NoMemory();
    } else if (read_buffers(list, numbers, queue, &found, &held)) {
        stored = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)found.bytes);
        uint8_t *out = stored ? (uint8_t *)PyBytes_AsString(stored) : NULL;
        for (int64_t index = 0; out && index < found.count; out += found.messages[index++].bytes)
            put_message(out, &found.messages[index], queue);
    }
    if (stored)
        answer = Py_BuildValue("(NLLLLL)", stored, (long long)found.count, (long long)found.next_offset,
                               (long long)found.walked_bytes, (long long)numbers[BUFFER_INDEX],
                               (long long)numbers[BUFFER_POSITION]);
    PyMem_Free(found.messages);
    release(&held);
    return answer;
}

/* A list of buffers, topic and host, then the numbers in the order of their names above. */
static PyObject *stored_batches(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    int64_t numbers[THEIR_NUMBERS];
    Py_buffer topic, host;
    PyObject *found = NULL;
    (void)module;
    if (given != THEIR_NUMBERS + 3 || !PyList_Check(arguments[0])) {
        PyErr_Format(PyExc_TypeError, "a list and %d more arguments are needed", THEIR_NUMBERS + 2);
        return NULL;
    }
    if (!read_numbers(arguments + 3, numbers, THEIR_NUMBERS) || PyObject_GetBuffer(arguments[1], &topic, PyBUF_SIMPLE) < 0)
        return NULL;
    if (PyObject_GetBuffer(arguments[2], &host, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&topic);
        return NULL;
    }
    if (topic.len > TOPIC_BYTES_MAX || host.len != HOST_BYTES || numbers[BUFFER_INDEX] < 0
        || numbers[BUFFER_POSITION] < 0 || numbers[THEIR_MESSAGES] < 1 || numbers[THEIR_MESSAGES] > MESSAGES_MAX_MAX
        || numbers[THEIR_BYTES] < 1) {
        PyErr_SetString(PyExc_ValueError, "a topic, host, position or count is out of its bounds");
    } else {
        Facts facts = {
            .queue_id = numbers[THEIR_QUEUE],
            .physical_base = numbers[THEIR_BASE],
            .from_offset = numbers[THEIR_FROM],
            .topic = {topic.buf, topic.len},
            .host = host.buf,
        };
        found = run_batches(arguments[0], numbers, &facts);
    }
    PyBuffer_Release(&host);
    PyBuffer_Release(&topic);
    return found;
}

/* ---- the module ---- */

static int fill_module(PyObject *module)
{
    fill_crc_tables();
    return PyModule_AddIntConstant(module, "CONTRACT", CONTRACT);
}

static PyMethodDef methods[] = {
    {"stored_batches", (PyCFunction)(void (*)(void))stored_batches, METH_FASTCALL, NULL},
    {"stored_run", (PyCFunction)(void (*)(void))stored_run, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_stored_run",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__stored_run(void)
{
    return PyModuleDef_Init(&definition);
}
