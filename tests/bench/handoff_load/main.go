// Load of one kind for a gRPC server: so many calls in flight, for so many seconds.
//
// A client in Python costs as much as the server, and the machine that measures has two cores for both. This one costs a
// tenth. It knows the field numbers of the few messages that it looks into, and else sends the bytes that it is given.
//
// It reads the payload from standard input. It prints the line "measuring" after a warm-up, then one line of JSON when the
// measured time is over.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	keyHeader = "pipestream-idempotency-key"
	// On a busy machine the measured time goes on until so many calls have ended.
	fewestCalls = 10
	// Of IntakeHandoffResponse.
	accepted protowire.Number = 1
	// Of HandoffBatchRequest, Handoff, HandoffBatchResponse and HandoffAnswer.
	handoffs, handoffKey, handoffRequest protowire.Number = 1, 1, 2
	answers, answerResponse              protowire.Number = 1, 2
	// Of IntakeHandoffStreamRequest, IntakeHandoffRequest and PipeStream.
	streamSequence, streamRequest, requestStream, streamID protowire.Number = 2, 3, 1, 1
	// Of IntakeHandoffStreamResponse.
	answerSequence, answerStatus protowire.Number = 2, 3
	statusAccepted                                = 1
)

// rawCodec passes messages on as bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append((*message.(*[]byte))[:0], data...)
	return nil
}

// A call sends the documents of a number, and returns how many these were when they are answered.
type call func(number int64) (int64, error)

func main() {
	address := flag.String("address", "", "of the server, host:port")
	method := flag.String("method", "", "/package.Service/Method")
	kind := flag.String("kind", "echo", "echo, unary, stream or batch")
	own := flag.String("own", "", "what the keys begin with")
	inFlight := flag.Int("in-flight", 1, "calls at the same time")
	connections := flag.Int("connections", 4, "how many")
	batch := flag.Int("batch", 50, "documents in a batch")
	seconds := flag.Float64("seconds", 1, "how long to measure")
	flag.Parse()
	payload, err := io.ReadAll(os.Stdin)
	check(err)
	var calls []call
	for range min(*connections, *inFlight) {
		connection, err := grpc.NewClient(
			*address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(64<<20)),
		)
		check(err)
		calls = append(calls, newCall(connection, *kind, *method, *own, payload, *batch))
	}
	measure(calls, *inFlight, time.Duration(*seconds*float64(time.Second)))
}

func newCall(connection *grpc.ClientConn, kind, method, own string, payload []byte, batch int) call {
	switch kind {
	case "echo":
		return unary(connection, method, own, payload, nil)
	case "unary":
		return unary(connection, method, own, payload, func(answer []byte) error { return isTrue(answer, accepted) })
	case "stream":
		return stream(connection, method, own, payload)
	case "batch":
		return batches(connection, method, own, payload, batch)
	}
	check(fmt.Errorf("there is no kind %q", kind))
	return nil
}

// unary sends the payload under a key of its own.
func unary(connection *grpc.ClientConn, method, own string, payload []byte, judge func([]byte) error) call {
	return func(number int64) (int64, error) {
		ctx := metadata.AppendToOutgoingContext(context.Background(), keyHeader, fmt.Sprintf("%s-%d", own, number))
		var answer []byte
		if err := connection.Invoke(ctx, method, &payload, &answer); err != nil {
			return 0, err
		}
		if judge == nil {
			return 1, nil
		}
		return 1, judge(answer)
	}
}

// batches sends the payload many times in one message, each time under a key of its own.
func batches(connection *grpc.ClientConn, method, own string, payload []byte, size int) call {
	return func(number int64) (int64, error) {
		var request []byte
		for index := range size {
			handoff := appendBytes(nil, handoffKey, fmt.Appendf(nil, "%s-%d-%d", own, number, index))
			request = appendBytes(request, handoffs, appendBytes(handoff, handoffRequest, payload))
		}
		var answer []byte
		if err := connection.Invoke(context.Background(), method, &request, &answer); err != nil {
			return 0, err
		}
		found := 0
		err := fields(answer, func(number protowire.Number, _ uint64, data []byte) error {
			if number != answers {
				return nil
			}
			found++
			return fields(data, func(number protowire.Number, _ uint64, response []byte) error {
				if number != answerResponse {
					return nil
				}
				return isTrue(response, accepted)
			})
		})
		if err == nil && found != size {
			err = fmt.Errorf("%d of %d documents were answered", found, size)
		}
		return int64(size), err
	}
}

// stream sends each payload over one stream for all calls of a connection. Its answers come in any order.
func stream(connection *grpc.ClientConn, method, own string, payload []byte) call {
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	opened, err := connection.NewStream(context.Background(), description, method)
	check(err)
	var sending sync.Mutex
	var waiting sync.Map
	go func() {
		for {
			var answer []byte
			if err := opened.RecvMsg(&answer); err != nil {
				if !errors.Is(err, io.EOF) {
					check(err)
				}
				return
			}
			var sequence, status uint64
			check(fields(answer, func(number protowire.Number, value uint64, _ []byte) error {
				switch number {
				case answerSequence:
					sequence = value
				case answerStatus:
					status = value
				}
				return nil
			}))
			if status != statusAccepted {
				check(fmt.Errorf("a document was not accepted: %q", answer))
			}
			done, _ := waiting.LoadAndDelete(sequence)
			close(done.(chan struct{}))
		}
	}()
	return func(number int64) (int64, error) {
		done := make(chan struct{})
		waiting.Store(uint64(number), done)
		// What comes again is merged into what came before: so says the protobuf encoding.
		id := appendBytes(nil, streamID, fmt.Appendf(nil, "%s-%d", own, number))
		message := appendBytes(nil, streamRequest, payload)
		message = appendBytes(message, streamRequest, appendBytes(nil, requestStream, id))
		message = protowire.AppendTag(message, streamSequence, protowire.VarintType)
		message = protowire.AppendVarint(message, uint64(number))
		sending.Lock()
		err := opened.SendMsg(&message)
		sending.Unlock()
		if err != nil {
			return 0, err
		}
		<-done
		return 1, nil
	}
}

type result struct {
	// Documents that were answered in the measured time.
	Documents int64 `json:"documents"`
	// Documents that were answered in all, before and after that time too.
	All     int64   `json:"all"`
	Seconds float64 `json:"seconds"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

func measure(calls []call, inFlight int, measured time.Duration) {
	var numbers, all atomic.Int64
	var stopped atomic.Bool
	var noting sync.Mutex
	var times []time.Duration
	var documents int64
	var working sync.WaitGroup
	for range inFlight {
		working.Add(1)
		go func() {
			defer working.Done()
			for !stopped.Load() {
				number := numbers.Add(1)
				started := time.Now()
				carried, err := calls[number%int64(len(calls))](number)
				check(err)
				took := time.Since(started)
				all.Add(carried)
				noting.Lock()
				times, documents = append(times, took), documents+carried
				noting.Unlock()
			}
		}()
	}
	wait := func(duration time.Duration) {
		time.Sleep(duration)
		for {
			noting.Lock()
			count := len(times)
			noting.Unlock()
			if count >= fewestCalls {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	wait(measured / 4)
	noting.Lock()
	times, documents = nil, 0
	noting.Unlock()
	fmt.Println("measuring")
	started := time.Now()
	wait(measured)
	noting.Lock()
	found := result{Documents: documents, Seconds: time.Since(started).Seconds()}
	ended := append([]time.Duration(nil), times...)
	noting.Unlock()
	fmt.Println("measured")
	stopped.Store(true)
	working.Wait()
	sort.Slice(ended, func(one, other int) bool { return ended[one] < ended[other] })
	found.All = all.Load()
	found.P50, found.P99 = share(ended, 0.5), share(ended, 0.99)
	check(json.NewEncoder(os.Stdout).Encode(found))
}

func share(ended []time.Duration, part float64) float64 {
	return float64(ended[int(float64(len(ended))*part)].Microseconds()) / 1000
}

func appendBytes(to []byte, number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), data)
}

// fields calls a function with each field of a message: its number, and its value if it is a number or bytes.
func fields(message []byte, visit func(protowire.Number, uint64, []byte) error) error {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeField(message)
		if length < 0 {
			return protowire.ParseError(length)
		}
		_, _, tag := protowire.ConsumeTag(message)
		var value uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			value, _ = protowire.ConsumeVarint(message[tag:])
		case protowire.BytesType:
			data, _ = protowire.ConsumeBytes(message[tag:])
		}
		if err := visit(number, value, data); err != nil {
			return err
		}
		message = message[length:]
	}
	return nil
}

// isTrue reports an error unless a message has a field that is true.
func isTrue(message []byte, wanted protowire.Number) error {
	is := false
	err := fields(message, func(number protowire.Number, value uint64, _ []byte) error {
		is = is || number == wanted && value == 1
		return nil
	})
	if err == nil && !is {
		err = fmt.Errorf("not accepted: %q", message)
	}
	return err
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
