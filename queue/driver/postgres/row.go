package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// row reads the columns of one row of a result, from left to right. The statements of
// this package return integers, rates, booleans, texts and bytes.
type row struct {
	values []any
	at     int
	err    error
}

// scan reads the values of the current row of a result.
func (r *row) scan(rows pgx.Rows) error {
	fields, raw := rows.FieldDescriptions(), rows.RawValues()
	r.values, r.at, r.err = r.values[:0], 0, nil
	for i, data := range raw {
		value, err := decodeValue(&fields[i].DataTypeOID, fields[i].Format, data)
		if err != nil {
			return fmt.Errorf("column %q: %w", fields[i].Name, err)
		}
		r.values = append(r.values, value)
	}
	return nil
}

// decodeValue decodes a value from the binary wire format. Bytes and texts are copied, because
// the connection reuses its buffer.
func decodeValue(oid *uint32, format int16, data []byte) (any, error) {
	if data == nil {
		return nil, nil
	}
	if format != pgtype.BinaryFormatCode && *oid != pgtype.TextOID {
		return nil, fmt.Errorf("type %d is not in its binary form", *oid)
	}
	switch *oid {
	case pgtype.Int8OID:
		return int64(binary.BigEndian.Uint64(data)), nil //nolint:gosec // It is one in two's complement.
	case pgtype.Int4OID:
		return int64(int32(binary.BigEndian.Uint32(data))), nil //nolint:gosec // The same.
	case pgtype.Int2OID:
		return int64(int16(binary.BigEndian.Uint16(data))), nil //nolint:gosec // The same.
	case pgtype.Float8OID:
		return math.Float64frombits(binary.BigEndian.Uint64(data)), nil
	case pgtype.BoolOID:
		return data[0] != 0, nil
	case pgtype.TextOID, pgtype.VarcharOID:
		return string(data), nil
	case pgtype.ByteaOID:
		return append(make([]byte, 0, len(data)), data...), nil
	default:
		return nil, fmt.Errorf("type %d is not expected", *oid)
	}
}

// read calls each for the row, and returns its error or that of a column.
func (r *row) read(each func(*row) error) error {
	err := each(r)
	if err == nil {
		err = r.err
	}
	return err
}

func (r *row) next() any {
	value := r.values[r.at]
	r.at++
	return value
}

func (r *row) wrong(value any, want string) {
	r.fail(fmt.Errorf("column %d of a row is a %T, and should be %s", r.at, value, want))
}

// fail sets the row's error, if it has none.
func (r *row) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *row) integer() int64 {
	switch v := r.next().(type) {
	case nil:
		return 0
	case int64:
		return v
	default:
		r.wrong(v, "a number")
		return 0
	}
}

func (r *row) int() int { return int(r.integer()) }

// rate reads a rate and its burst; nil if the rate is NULL.
func (r *row) rate() *amboy.Rate {
	var read *amboy.Rate
	switch v := r.next().(type) {
	case nil:
	case float64:
		read = &amboy.Rate{PerSecond: v}
	default:
		r.wrong(v, "a rate")
	}
	burst := r.int()
	if read != nil {
		read.Burst = burst
	}
	return read
}

// key reads the key of a queue or a line.
func (r *row) key() int32 { return int32(r.integer()) } //nolint:gosec // The column is one of 32 bits.

func (r *row) bool() bool {
	switch v := r.next().(type) {
	case nil:
		return false
	case bool:
		return v
	default:
		r.wrong(v, "a boolean")
		return false
	}
}

func (r *row) time() table.Instant {
	switch v := r.next().(type) {
	case nil:
		return table.Instant{}
	case int64:
		return table.Instant{Int64: v, Valid: true}
	default:
		r.wrong(v, "a time")
		return table.Instant{}
	}
}

func (r *row) text() string {
	switch v := r.next().(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		r.wrong(v, "a text")
		return ""
	}
}

func (r *row) bytes() []byte {
	switch v := r.next().(type) {
	case nil:
		return nil
	case []byte:
		return v
	default:
		r.wrong(v, "bytes")
		return nil
	}
}

// names reads a list of names from its JSON.
func (r *row) names() table.Names {
	list, err := table.DecodeNames(r.text())
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("column %d of a row should be a list of names: %w", r.at, err)
	}
	return list
}

// numbers reads a list of numbers from its JSON.
func (r *row) numbers() (list []int64) {
	text := r.text()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil && r.err == nil {
		r.err = fmt.Errorf("column %d of a row should be a list of numbers: %w", r.at, err)
	}
	return list
}
