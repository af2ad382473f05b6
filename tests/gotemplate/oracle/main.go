// Says what Go's text/template makes of a template: one request per line of standard input, one answer per line of
// standard output. Strings that templates make need not be UTF-8, so that answers hold them in base64.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// request is one template with what it is executed on.
type request struct {
	// Name is what errors call the template.
	Name string `json:"name"`
	// Text is the template.
	Text string `json:"text"`
	// Data is the value, with the tags of `value`.
	Data json.RawMessage `json:"data"`
	// Sprig tells whether there are Sprig's functions beside Go's.
	Sprig bool `json:"sprig"`
	// Helm tells to let Helm's engine render a chart with the template, with the data as its values.
	Helm bool `json:"helm"`
	// Inspect is a text to say what is in it, in place of all the above.
	Inspect []byte `json:"inspect"`
	// MissingKey is one of text/template's options: default, zero, error.
	MissingKey string `json:"missingkey"`
}

// answer has the output or the error.
type answer struct {
	Output []byte `json:"output,omitempty"`
	Error  []byte `json:"error,omitempty"`
	Failed bool   `json:"failed"`
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			write(out, line)
		}
		if err != nil {
			return
		}
	}
}

func write(out *bufio.Writer, line []byte) {
	output, err := run(line)
	said := answer{Output: output}
	if err != nil {
		said = answer{Error: []byte(err.Error()), Failed: true}
	}
	text, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	out.Write(append(text, '\n'))
	out.Flush()
}

func run(line []byte) (output []byte, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v", why)
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return nil, err
	}
	if asked.Inspect != nil {
		return inspected(asked.Inspect)
	}
	data, err := value(asked.Data)
	if err != nil {
		return nil, err
	}
	if asked.Helm {
		return rendered(asked, data)
	}
	empty := template.New(asked.Name).Option("missingkey=" + asked.MissingKey)
	if asked.Sprig {
		empty.Funcs(functions())
	}
	parsed, err := empty.Parse(asked.Text)
	if err != nil {
		return nil, err
	}
	var written bytes.Buffer
	if err := parsed.Execute(&written, data); err != nil {
		return nil, err
	}
	return written.Bytes(), nil
}

// functions are Sprig's as Helm exposes them.
func functions() template.FuncMap {
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	return functions
}

// value reads data: JSON in which a number without a point is an int, and an object with a single key that begins with
// `$` names a type of Go that JSON has no way to write.
func value(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var read any
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	return typed(read)
}

func typed(read any) (any, error) {
	switch read := read.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(read), 10, 64); err == nil {
			return int(n), nil
		}
		return read.Float64()
	case []any:
		for i := range read {
			item, err := typed(read[i])
			if err != nil {
				return nil, err
			}
			read[i] = item
		}
		// Without the room that the decoder left behind the last item.
		return slices.Clip(read), nil
	case map[string]any:
		if len(read) == 1 {
			for key, of := range read {
				if key[:min(1, len(key))] == "$" {
					return tagged(key, of)
				}
			}
		}
		for key := range read {
			item, err := typed(read[key])
			if err != nil {
				return nil, err
			}
			read[key] = item
		}
		return read, nil
	default:
		return read, nil
	}
}

func tagged(tag string, of any) (any, error) {
	text := fmt.Sprint(of)
	signed, signedErr := strconv.ParseInt(text, 10, 64)
	unsigned, unsignedErr := strconv.ParseUint(text, 10, 64)
	switch tag {
	case "$int8":
		return int8(signed), signedErr
	case "$int32":
		return int32(signed), signedErr
	case "$int64":
		return signed, signedErr
	case "$uint":
		return uint(unsigned), unsignedErr
	case "$uint8":
		return uint8(unsigned), unsignedErr
	case "$uint64":
		return unsigned, unsignedErr
	case "$float":
		return float(text)
	case "$bytes":
		return slices.Clip([]byte(text)), nil
	case "$strings":
		return slices.Clip(texts(of)), nil
	case "$ints":
		return ints(of)
	case "$texts":
		entries := map[string]string{}
		for key, item := range of.(map[string]any) {
			entries[key] = fmt.Sprint(item)
		}
		return entries, nil
	}
	return nil, fmt.Errorf("unknown tag %s", tag)
}

func float(text string) (any, error) {
	switch text {
	case "nan":
		return math.NaN(), nil
	case "inf":
		return math.Inf(1), nil
	case "-inf":
		return math.Inf(-1), nil
	}
	return strconv.ParseFloat(text, 64)
}

func texts(of any) []string {
	texts := []string{}
	for _, item := range of.([]any) {
		texts = append(texts, fmt.Sprint(item))
	}
	return texts
}

func ints(of any) ([]int, error) {
	numbers := []int{}
	for _, item := range of.([]any) {
		n, err := strconv.Atoi(fmt.Sprint(item))
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return slices.Clip(numbers), nil
}
