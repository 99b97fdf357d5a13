import Bytes
import Common

/// Several byte streams over one link, as npm "multiplex" 6 does it. Facts: thali.md section 6.
///
/// The side that made the RFCOMM link opens streams (`Role.client`); the other side accepts them (`Role.server`) and
/// connects each to a local listener. Each direction of a stream ends on its own, and either side may destroy a
/// stream.
///
/// The protocol has no flow control, so back-pressure is that of the link. The owner of the link reads from it only
/// while `isReading`, and calls `output` only while the link takes bytes. What a stream has sent and the link has not
/// taken waits here, up to `Limits.streamBuffer`; streams take turns, one frame of `Limits.sentFrameBytes` each.
public struct Multiplexer: Sendable {
  public enum Role: Hashable, Sendable {
    case client, server
  }

  /// A stream of this link. A number is never used again while the link lives, unlike a channel number.
  public struct StreamID: Hashable, Sendable {
    public let number: UInt64
  }

  /// What the owner of the link must do, in this order.
  public enum Intent: Hashable, Sendable {
    /// The peer has opened a stream: connect it to a local listener. The name is empty for most peers.
    case opened(StreamID, name: String)
    /// Bytes of the peer. The owner calls `consumed` when it has passed them on.
    case deliver(StreamID, ArraySlice<UInt8>)
    /// The peer sends no more on this stream.
    case ended(StreamID)
    /// The peer has destroyed the stream: close the local side at once.
    case destroyed(StreamID, reason: String)
    /// The link cannot be used any more: close it and the local side of all streams.
    case fail(LinkFailure)
  }

  public enum LinkFailure: Int, CaseIterable, Error, Hashable, Sendable {
    /// A varint has more than five bytes, or a channel number more than 32 bits.
    case badFrame
    /// A frame has more than 1 MiB of data.
    case frameTooLong
    /// The peer causes answers faster than it reads them.
    case tooManyAnswers

    /// The name of its counter.
    public var name: String {
      switch self {
      case .badFrame: "BadFrames"
      case .frameTooLong: "FramesTooLong"
      case .tooManyAnswers: "UnreadAnswers"
      }
    }
  }

  /// How often each thing happened on this link.
  public struct Counters: Hashable, Sendable {
    /// Frames for channels that are not open, after the peer's end among them, and frames of type 7.
    public var ignoredFrames: UInt64 = 0
    /// Streams that the peer opened and that were destroyed at once: by the server side, above the limit, or on a
    /// channel in use.
    public var refusedStreams: UInt64 = 0
  }

  /// What goes to the link.
  public struct Output: Hashable, Sendable {
    public var bytes: [UInt8] = []
    /// Streams that were full and take bytes again.
    public var resumed: [StreamID] = []
  }

  /// A channel: its number, and which side opened it. Both sides may have a channel of one number.
  private struct Channel: Hashable, Sendable {
    let number: UInt32
    let isOurs: Bool
  }

  private struct Stream: Sendable {
    let channel: Channel
    /// The open frame that was not sent yet.
    var opening: MultiplexerFrame?
    /// What was written and not sent: the rest of the first portion, and the portions behind it.
    var head: ArraySlice<UInt8> = []
    var outgoing = Fifo<ArraySlice<UInt8>>()
    var outgoingCount = 0
    var isFull = false
    /// Bytes that were delivered and not consumed.
    var undelivered = 0
    var hasEnded = false
    var hasSentEnd = false
    var peerHasEnded = false
    /// Whether it waits for its turn.
    var isQueued = false

    /// Whether both directions have ended, so that the channel is free.
    var isOver: Bool { peerHasEnded && hasSentEnd }
    var hasOutput: Bool { opening != nil || outgoingCount > 0 || hasEnded && !hasSentEnd }

    /// Takes up to `limit` bytes out of what was written.
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
  /// Streams with output, in their order.
  private var turns = Fifo<StreamID>()
  /// Destroy frames, which go before all others.
  private var control = Fifo<MultiplexerFrame>()
  /// Numbers of streams that we destroyed. Data of the peer that was under way belongs to those streams, so that no
  /// other stream may have the number.
  private var retired: Set<UInt32> = []
  private var fullConsumers = 0
  private var lastStream: UInt64 = 0
  private var hasFailed = false
  public private(set) var counters = Counters()

  public init(role: Role) { self.role = role }

  // MARK: The local side

  /// How many streams are open.
  public var count: Int { streams.count }

  /// Opens a stream.
  ///
  /// - Parameter name: sent to the peer; an empty one means the number of the channel.
  /// - Returns: nil for a server, which opens none, with `Limits.streams` streams, and after a failure.
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

  /// How many bytes the stream takes now: 0 if it is full, has ended or does not exist.
  public func room(of id: StreamID) -> Int {
    guard let stream = streams[id], !stream.hasEnded else { return 0 }
    return Limits.streamBuffer - stream.outgoingCount
  }

  /// Sends bytes to the peer.
  ///
  /// - Returns: how many bytes were taken, at most `room`. When it is fewer than there are, `Output.resumed` names
  ///   the stream later.
  public mutating func write(_ bytes: ArraySlice<UInt8>, to id: StreamID) -> Int {
    let count = min(bytes.count, room(of: id))
    if count < bytes.count { streams[id]?.isFull = true }
    guard count > 0 else { return 0 }
    streams[id]?.outgoing.append(bytes.prefix(count))
    streams[id]?.outgoingCount += count
    queue(id)
    return count
  }

  /// Whether everything that was written to a stream, and its end, has gone to the link.
  public func isSent(_ id: StreamID) -> Bool { streams[id].map { !$0.hasOutput } ?? true }

  /// Ends our direction of a stream, after what was written.
  public mutating func end(_ id: StreamID) {
    guard let stream = streams[id], !stream.hasEnded else { return }
    streams[id]?.hasEnded = true
    queue(id)
  }

  /// Destroys a stream; what was written and not sent is dropped.
  public mutating func destroy(_ id: StreamID, reason: String = "") {
    guard let stream = remove(id) else { return }
    // The peer does not know the stream yet, or both sides have ended it.
    guard stream.opening == nil, !stream.isOver else { return }
    if stream.channel.isOurs, !stream.peerHasEnded { retired.insert(stream.channel.number) }
    answer(stream.channel, reason)
  }

  /// Notes that the owner has passed bytes of a stream on.
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

  /// Whether `output` has something for the link.
  public var hasOutput: Bool { !hasFailed && (!control.isEmpty || !turns.isEmpty) }

  /// Takes what goes to the link next.
  ///
  /// - Parameter limit: about how many bytes the link takes; the last frame may go beyond it.
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

  /// Takes bytes of the link.
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
      // Which of the two the peer means is not known.
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

  /// The stream that a frame of the peer is about: odd types name channels that we opened.
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
  /// consumed, so that a peer cannot leave ever more of them behind.
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
