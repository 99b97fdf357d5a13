import Common
import Loop
import Radio

/// One end of a stream between two nodes. Each direction has its own bandwidth; what it carries arrives complete and in
/// order.
@LoopActor
final class AirStream: RadioStream {
  /// Maximum bytes that wait to be sent, and also maximum received bytes that the owner has not taken.
  static let buffer = 64 << 10
  /// Maximum bytes that are transmitted in one step.
  private static let piece = 1024

  let node: AirRadio
  /// The public address of the node at the other end.
  let address: BluetoothAddress
  private let ownAddress: BluetoothAddress
  private(set) weak var peer: AirStream?
  private var number: UInt64 = 0
  private var handler: (@LoopActor (RadioStreamEvent) -> Void)?

  /// Accepted bytes that are not transmitted.
  private var outgoing: [UInt8] = []
  /// Number of bytes that are being transmitted, or were transmitted and have not arrived at the peer.
  private var underWay = 0
  private var isTransmitting = false
  private var lastArrival = Instant.zero
  private var wasShort = false
  /// Bytes that have arrived and were not reported to the owner.
  private var arrived: [UInt8] = []
  private var isPaused = false
  private var isReportDue = false
  /// The owner has closed the stream; accepted bytes are still sent.
  private var isClosing = false
  /// The reason of the end, which is reported after the bytes that have arrived.
  private var end: String?

  private init(_ node: AirRadio, _ ownAddress: BluetoothAddress, peer address: BluetoothAddress) {
    (self.node, self.ownAddress, self.address) = (node, ownAddress, address)
  }

  /// Makes the two ends of a stream between two nodes.
  static func pair(
    _ one: AirRadio, _ oneAddress: BluetoothAddress, _ other: AirRadio, _ otherAddress: BluetoothAddress
  ) -> (AirStream, AirStream) {
    let first = AirStream(one, oneAddress, peer: otherAddress)
    let second = AirStream(other, otherAddress, peer: oneAddress)
    (first.peer, second.peer) = (second, first)
    for stream in [first, second] { stream.number = stream.node.air.keep(stream) }
    return (first, second)
  }

  private var agenda: Agenda { node.air.agenda }
  private var isOver: Bool { end != nil }

  // MARK: The owner

  func start(_ handler: @escaping @LoopActor (RadioStreamEvent) -> Void) {
    guard !isClosing else { return }
    self.handler = handler
    reportSoon()
  }

  func send(_ bytes: ArraySlice<UInt8>) -> Int {
    guard !isOver, !isClosing else { return 0 }
    let count = min(bytes.count, Self.buffer - outgoing.count)
    if count < bytes.count { wasShort = true }
    outgoing += bytes.prefix(count)
    transmit()
    return count
  }

  func pauseReading(_ isPaused: Bool) {
    guard isPaused != self.isPaused else { return }
    self.isPaused = isPaused
    if !isPaused { reportSoon() }
  }

  func close() {
    guard !isClosing else { return }
    isClosing = true
    handler = nil
    arrived = []
    peer?.transmit()
    finishIfDrained()
  }

  // MARK: Transmission

  /// Transmits the next piece, unless one is being transmitted or the peer has no space for it.
  private func transmit() {
    guard !isTransmitting, !isOver, !outgoing.isEmpty, let peer, peer.arrived.count + underWay < Self.buffer else {
      return
    }
    let conditions = node.air.conditions(between: ownAddress, and: address)
    let bytes = Array(outgoing.prefix(Self.piece))
    outgoing.removeFirst(bytes.count)
    underWay += bytes.count
    isTransmitting = true
    let time = Duration.nanoseconds(Int64(bytes.count) * 1_000_000_000 / Int64(max(1, conditions.streamBandwidth)))
    let sent = agenda.now.advanced(by: time)
    lastArrival = max(lastArrival, sent.advanced(by: conditions.latency))
    agenda.at(sent) { [weak self] in
      guard let self, !isOver else { return }
      isTransmitting = false
      transmit()
      if wasShort, outgoing.count <= Self.buffer / 2 {
        wasShort = false
        handler?(.writable)
      }
    }
    agenda.at(lastArrival) { [weak self] in
      guard let self, !isOver else { return }
      underWay -= bytes.count
      self.peer?.take(bytes)
      transmit()
      finishIfDrained()
    }
  }

  private func take(_ bytes: [UInt8]) {
    guard !isOver, !isClosing else { return }
    arrived += bytes
    report()
  }

  /// Ends a stream that its owner has closed, when the peer has everything.
  private func finishIfDrained() {
    guard isClosing, !isOver, outgoing.isEmpty, underWay == 0 else { return }
    leave()
    peer?.ended("The peer closed the stream.")
  }

  /// Ends the stream for both nodes; what has not arrived is lost.
  func lose(_ reason: String) {
    let peer = peer
    ended(reason)
    peer?.ended(reason)
  }

  private func ended(_ reason: String) {
    guard !isOver else { return }
    end = reason
    leave()
    reportSoon()
  }

  private func leave() {
    if end == nil { end = "" }
    outgoing = []
    node.air.forgetStream(number)
  }

  // MARK: Reports

  private func reportSoon() {
    guard !isReportDue else { return }
    isReportDue = true
    agenda.next { [self] in
      isReportDue = false
      report()
    }
  }

  private func report() {
    guard let handler, !isPaused else { return }
    if !arrived.isEmpty {
      let bytes = arrived
      arrived = []
      handler(.received(bytes))
      peer?.transmit()
    }
    guard let end, !isPaused, arrived.isEmpty, let handler = self.handler else { return }
    self.handler = nil
    handler(.closed(reason: end))
  }
}
