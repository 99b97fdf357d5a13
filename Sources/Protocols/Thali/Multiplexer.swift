import Bytes
import Common

/// Several byte streams over one link, in the protocol of npm "multiplex" 6. Facts: thali.md section 6.
///
/// The side that made the RFCOMM link opens streams (`Role.client`); the other side accepts them (`Role.server`) and
/// connects each to a local listener. Each direction of a stream ends on its own, and either side may destroy a stream.
///
/// The protocol has no flow control; only the link limits the data. The owner of the link reads from it only while
/// `isReading`, and calls `output` only while the link accepts bytes. Bytes of a stream that the link has not accepted
/// wait here, up to `Limits.streamBuffer`. The streams alternate, with one frame of `Limits.sentFrameBytes` each.
public struct Multiplexer: Sendable {
  public enum Role: Hashable, Sendable {
    case client, server
  }

  /// A stream of this link. Unlike a channel number, its number is not reused during the life of the link.
  public struct StreamID: Hashable, Sendable {
    public let number: UInt64
  }

  /// The output of the multiplexer, in order.
  public enum Intent: Hashable, Sendable {
    /// The peer has opened a stream: connect it to a local listener. Most peers send an empty name.
    case opened(StreamID, name: String)
    /// Deliver bytes of the peer. The owner calls `consumed` when it has passed them on.
    case deliver(StreamID, ArraySlice<UInt8>)
    /// The peer has ended its direction of the stream.
    case ended(StreamID)
    /// The peer has destroyed the stream: close the local side at once.
    case destroyed(StreamID, reason: String)
    /// The link is no longer usable: close it, and the local side of all streams.
    case fail(LinkFailure)
  }

  public enum LinkFailure: Int, CaseIterable, Error, Hashable, Sendable {
    /// A varint has more than five bytes, or a channel number more than 32 bits.
    case badFrame
    /// A frame has more than 1 MiB of data.
    case frameTooLong
    /// The peer causes destroy frames faster than it reads them.
    case tooManyAnswers

    /// The name of the failure's counter.
    public var name: String {
      switch self {
      case .badFrame: "BadFrames"
      case .frameTooLong: "FramesTooLong"
      case .tooManyAnswers: "UnreadAnswers"
      }
    }
  }

  /// Event counters of this link.
  public struct Counters: Hashable, Sendable {
    /// Frames for channels that are not open, including frames after the peer's end, and frames of type 7.
    public var ignoredFrames: UInt64 = 0
    /// Streams that the peer opened and that were destroyed at once: on the server side, above the limit, or on a
    /// channel in use.
    public var refusedStreams: UInt64 = 0
  }

  /// The bytes to send to the link.
  public struct Output: Hashable, Sendable {
    public var bytes: [UInt8] = []
    /// Streams that were full and accept bytes again.
    public var resumed: [StreamID] = []
  }

  /// A channel: its number, and which side opened it. Both sides may have a channel of one number.
  private struct Channel: Hashable, Sendable {
    let number: UInt32
    let isOurs: Bool
  }

  private struct Stream: Sendable {
    let channel: Channel
    /// The frame that opens the stream, until it is sent; nil afterwards.
    var opening: MultiplexerFrame?
    /// Written and unsent bytes: the rest of the first portion, and the portions after it.
    var head: ArraySlice<UInt8> = []
    var outgoing = Fifo<ArraySlice<UInt8>>()
    var outgoingCount = 0
    var isFull = false
    /// Number of bytes that were delivered and not consumed.
    var undelivered = 0
    var hasEnded = false
    var hasSentEnd = false
    var peerHasEnded = false
    /// Whether the stream is in the queue of streams with output.
    var isQueued = false

    /// Whether both directions have ended, so that the channel is free.
    var isOver: Bool { peerHasEnded && hasSentEnd }
    var hasOutput: Bool { opening != nil || outgoingCount > 0 || hasEnded && !hasSentEnd }

    /// Returns and removes up to `limit` of the written bytes.
    mutating func take(_ limit: Int) -> [UInt8] {
      var data: [UInt8] = []
      data.reserveCapacity(min(limit, outgoingCount))
      while data.count < limit {
        if head.isEmpty {
          guard let next = outgoing.popFirst() else { break }
          head = next
        }
        let part = head.prefix(limit - data.count)
        data += part
        head = head.dropFirst(part.count)
      }
      outgoingCount -= data.count
      return data
    }
  }

  /// The frame that is being read.
  private struct Incoming: Sendable {
    let type: FrameType?
    let number: UInt32
    /// The first bytes of a name or reason.
    var text: [UInt8] = []
  }

  private static let answers = 256
  private static let retiredNumbers = 1 << 16

  private let role: Role
  private var reader = MultiplexerFrameReader()
  private var incoming: Incoming?
  private var streams: [StreamID: Stream] = [:]
  private var channels: [Channel: StreamID] = [:]
  /// Streams with output, in the order of sending.
  private var turns = Fifo<StreamID>()
  /// Destroy frames, which are sent before all others.
  private var control = Fifo<MultiplexerFrame>()
  /// Channel numbers of streams that this side destroyed. Data of the peer may still arrive for them, so no other
  /// stream may use these numbers.
  private var retired: Set<UInt32> = []
  private var fullConsumers = 0
  private var lastStream: UInt64 = 0
  private var hasFailed = false
  public private(set) var counters = Counters()

  public init(role: Role) { self.role = role }

  // MARK: The local side

  /// Number of open streams.
  public var count: Int { streams.count }

  /// Opens a stream.
  ///
  /// - Parameter name: sent to the peer; an empty one means the number of the channel.
  /// - Returns: nil for a server, which opens no streams, at the maximum of `Limits.streams`, and after a failure.
  public mutating func open(name: String = "") -> StreamID? {
    guard role == .client, !hasFailed, streams.count < Limits.streams, retired.count < Self.retiredNumbers else {
      return nil
    }
    var number: UInt32 = 0
    while channels[Channel(number: number, isOurs: true)] != nil || retired.contains(number) { number += 1 }
    let id = add(Channel(number: number, isOurs: true))
    streams[id]?.opening = MultiplexerFrame(.open, channel: number, data: name.utf8.prefix(Limits.frameTextBytes))
    queue(id)
    return id
  }

  /// Number of bytes that the stream accepts now: 0 if it is full, has ended or does not exist.
  public func room(of id: StreamID) -> Int {
    guard let stream = streams[id], !stream.hasEnded else { return 0 }
    return Limits.streamBuffer - stream.outgoingCount
  }

  /// Sends bytes to the peer.
  ///
  /// - Returns: number of accepted bytes, at most `room`. If not all were accepted, `Output.resumed` names the stream
  ///   later.
  public mutating func write(_ bytes: ArraySlice<UInt8>, to id: StreamID) -> Int {
    let count = min(bytes.count, room(of: id))
    if count < bytes.count { streams[id]?.isFull = true }
    guard count > 0 else { return 0 }
    streams[id]?.outgoing.append(bytes.prefix(count))
    streams[id]?.outgoingCount += count
    queue(id)
    return count
  }

  /// Whether all bytes that were written to a stream, and its end, are sent to the link.
  public func isSent(_ id: StreamID) -> Bool { streams[id].map { !$0.hasOutput } ?? true }

  /// Ends this side's direction of a stream, after the written bytes.
  public mutating func end(_ id: StreamID) {
    guard let stream = streams[id], !stream.hasEnded else { return }
    streams[id]?.hasEnded = true
    queue(id)
  }

  /// Destroys a stream; written and unsent bytes are dropped.
  public mutating func destroy(_ id: StreamID, reason: String = "") {
    guard let stream = remove(id) else { return }
    // The peer does not know the stream yet, or both sides have ended it.
    guard stream.opening == nil, !stream.isOver else { return }
    if stream.channel.isOurs, !stream.peerHasEnded { retired.insert(stream.channel.number) }
    answer(stream.channel, reason)
  }

  /// Records that the owner has passed on bytes of a stream.
  public mutating func consumed(_ count: Int, of id: StreamID) {
    guard let stream = streams[id] else { return }
    let wasFull = stream.undelivered >= Limits.streamBuffer
    let left = max(0, stream.undelivered - max(0, count))
    streams[id]?.undelivered = left
    if wasFull, left < Limits.streamBuffer { fullConsumers -= 1 }
    removeIfOver(id)
  }

  // MARK: The link

  /// Whether the owner may read from the link: no stream has `Limits.streamBuffer` unconsumed bytes, and the peer
  /// reads answers.
  public var isReading: Bool { !hasFailed && fullConsumers == 0 && control.count < Self.answers / 2 }

  /// Whether `output` has bytes for the link.
  public var hasOutput: Bool { !hasFailed && (!control.isEmpty || !turns.isEmpty) }

  /// Returns and removes the next bytes for the link.
  ///
  /// - Parameter limit: approximate number of bytes that the link accepts; the last frame may exceed it.
  public mutating func output(limit: Int) -> Output {
    var output = Output()
    guard !hasFailed else { return output }
    var writer = ByteWriter(capacity: min(max(0, limit), Limits.streamBuffer))
    while writer.bytes.count < limit {
      if let frame = control.popFirst() {
        frame.write(to: &writer)
      } else if let id = turns.popFirst() {
        write(id, to: &writer, &output.resumed)
      } else {
        break
      }
    }
    output.bytes = writer.bytes
    return output
  }

  /// Handles bytes from the link.
  public mutating func receive(_ bytes: ArraySlice<UInt8>) -> [Intent] {
    guard !hasFailed else { return [] }
    var pieces: [MultiplexerFrameReader.Piece] = []
    var failure: LinkFailure?
    do throws(MultiplexerFrameReader.Failure) {
      try reader.read(bytes) { pieces.append($0) }
    } catch {
      failure = error == .tooLong ? .frameTooLong : .badFrame
    }
    var intents: [Intent] = []
    for piece in pieces where !hasFailed { handle(piece, &intents) }
    if let failure, !hasFailed { fail(failure, &intents) }
    return intents
  }

  // MARK: Frames

  private mutating func handle(_ piece: MultiplexerFrameReader.Piece, _ intents: inout [Intent]) {
    switch piece {
    case .beginUnknown:
      counters.ignoredFrames += 1
      incoming = Incoming(type: nil, number: 0)
    case .begin(let type, let number):
      if type != .open, stream(of: type, number).flatMap({ streams[$0] })?.peerHasEnded ?? true {
        counters.ignoredFrames += 1
      }
      incoming = Incoming(type: type, number: number)
    case .data(let bytes):
      guard let frame = incoming, let type = frame.type else { return }
      switch type {
      case .dataFromReceiver, .dataFromInitiator: deliver(bytes, type, frame.number, &intents)
      default: incoming?.text += bytes.prefix(max(0, Limits.frameTextBytes - frame.text.count))
      }
    case .end:
      guard let frame = incoming, let type = frame.type else { return }
      incoming = nil
      finish(type, frame.number, String(decoding: frame.text, as: UTF8.self), &intents)
    }
  }

  private mutating func finish(_ type: FrameType, _ number: UInt32, _ text: String, _ intents: inout [Intent]) {
    switch type {
    case .open: accept(number, name: text, &intents)
    case .dataFromReceiver, .dataFromInitiator: break
    case .endFromReceiver, .endFromInitiator:
      guard let id = stream(of: type, number), streams[id]?.peerHasEnded == false else { return }
      streams[id]?.peerHasEnded = true
      intents.append(.ended(id))
      removeIfOver(id)
    case .destroyFromReceiver, .destroyFromInitiator:
      guard let id = stream(of: type, number), remove(id) != nil else { return }
      intents.append(.destroyed(id, reason: PrintableText.clean(text)))
    }
  }

  private mutating func accept(_ number: UInt32, name: String, _ intents: inout [Intent]) {
    let channel = Channel(number: number, isOurs: false)
    if let id = channels[channel] {
      // Later frames could mean the open stream or the refused one.
      _ = remove(id)
      intents.append(.destroyed(id, reason: "the peer opened the channel again"))
      refuse(channel, "the channel is in use", &intents)
    } else if role == .client {
      refuse(channel, "only the client opens streams", &intents)
    } else if streams.count >= Limits.streams {
      refuse(channel, "too many streams", &intents)
    } else {
      intents.append(.opened(add(channel), name: PrintableText.clean(name)))
    }
  }

  private mutating func refuse(_ channel: Channel, _ reason: String, _ intents: inout [Intent]) {
    counters.refusedStreams += 1
    guard control.count < Self.answers else {
      fail(.tooManyAnswers, &intents)
      return
    }
    answer(channel, reason)
  }

  private mutating func answer(_ channel: Channel, _ reason: String) {
    let type = channel.isOurs ? FrameType.destroyFromInitiator : .destroyFromReceiver
    control.append(
      MultiplexerFrame(type, channel: channel.number, data: reason.utf8.prefix(Limits.frameTextBytes)))
  }

  private mutating func deliver(
    _ bytes: ArraySlice<UInt8>, _ type: FrameType, _ number: UInt32, _ intents: inout [Intent]
  ) {
    guard let id = stream(of: type, number), let stream = streams[id], !stream.peerHasEnded else { return }
    let before = stream.undelivered
    streams[id]?.undelivered = before + bytes.count
    if before < Limits.streamBuffer, before + bytes.count >= Limits.streamBuffer { fullConsumers += 1 }
    intents.append(.deliver(id, bytes))
  }

  private mutating func write(_ id: StreamID, to writer: inout ByteWriter, _ resumed: inout [StreamID]) {
    guard var stream = streams[id] else { return }
    stream.isQueued = false
    let channel = stream.channel
    if let opening = stream.opening {
      opening.write(to: &writer)
      stream.opening = nil
    } else if stream.outgoingCount > 0 {
      let data = stream.take(Limits.sentFrameBytes)
      MultiplexerFrame(channel.isOurs ? .dataFromInitiator : .dataFromReceiver, channel: channel.number, data: data)
        .write(to: &writer)
      if stream.isFull, stream.outgoingCount <= Limits.streamBuffer / 2 {
        stream.isFull = false
        resumed.append(id)
      }
    } else if stream.hasEnded, !stream.hasSentEnd {
      MultiplexerFrame(channel.isOurs ? .endFromInitiator : .endFromReceiver, channel: channel.number)
        .write(to: &writer)
      stream.hasSentEnd = true
    }
    streams[id] = stream
    if stream.hasOutput { queue(id) }
    removeIfOver(id)
  }

  // MARK: Streams

  /// The stream of a frame of the peer. Odd frame types refer to channels that this side opened.
  private func stream(of type: FrameType, _ number: UInt32) -> StreamID? {
    channels[Channel(number: number, isOurs: type.rawValue % 2 == 1)]
  }

  private mutating func add(_ channel: Channel) -> StreamID {
    lastStream += 1
    let id = StreamID(number: lastStream)
    streams[id] = Stream(channel: channel)
    channels[channel] = id
    return id
  }

  private mutating func queue(_ id: StreamID) {
    guard streams[id]?.isQueued == false else { return }
    streams[id]?.isQueued = true
    turns.append(id)
  }

  /// Frees the channel of a stream that has ended in both directions. The stream counts as open until its bytes are
  /// consumed, so that a peer cannot accumulate unread streams.
  private mutating func removeIfOver(_ id: StreamID) {
    guard let stream = streams[id], stream.isOver else { return }
    if stream.undelivered == 0 { _ = remove(id) } else { free(stream.channel, of: id) }
  }

  private mutating func remove(_ id: StreamID) -> Stream? {
    guard let stream = streams.removeValue(forKey: id) else { return nil }
    free(stream.channel, of: id)
    if stream.undelivered >= Limits.streamBuffer { fullConsumers -= 1 }
    return stream
  }

  private mutating func free(_ channel: Channel, of id: StreamID) {
    if channels[channel] == id { channels[channel] = nil }
  }

  private mutating func fail(_ failure: LinkFailure, _ intents: inout [Intent]) {
    hasFailed = true
    (streams, channels, turns, control) = ([:], [:], Fifo(), Fifo())
    intents.append(.fail(failure))
  }
}
