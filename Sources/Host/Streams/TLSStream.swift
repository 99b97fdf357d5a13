import Common
import LocalSockets
import Loop
import TLS

/// A connection over TLS. Octets that are sent before the handshake is complete wait for it.
@LoopActor
public final class TLSStream: StreamConnection {
  public var onEvent: @LoopActor (StreamEvent) -> Void = { _ in }
  public var isReading: Bool {
    get { transport.isReading }
    set { transport.isReading = newValue }
  }
  /// Maximum waiting octets of TLS itself: the handshake, and answers to a peer that requests new keys.
  private static let controlLimit = 64 << 10

  /// Called once if TLS fails, before the event `ended`: a reason as part of a sentence.
  public var onFailure: @LoopActor (String) -> Void = { _ in }

  private let transport: any StreamConnection
  private let session: TLSCertificateSession
  private var early: [UInt8]? = []
  private var unwritten = UnwrittenOutput()
  /// Number of unwritten octets of TLS itself.
  private var control = 0
  private var isClosed = false

  public init(_ transport: any StreamConnection, _ session: TLSCertificateSession) {
    (self.transport, self.session) = (transport, session)
    transport.onEvent = { [weak self] event in self?.handle(event) }
    flush(payload: 0)
  }

  public func send(_ bytes: [UInt8]) {
    guard !isClosed, !bytes.isEmpty else { return }
    if early != nil {
      early?.append(contentsOf: bytes)
    } else {
      session.send(bytes)
      flush(payload: bytes.count)
    }
  }

  public func close() {
    guard !isClosed else { return }
    (isClosed, onEvent, onFailure) = (true, { _ in }, { _ in })
    session.finish()
    flush(payload: 0)
    transport.close()
  }

  public func abort() {
    (isClosed, onEvent, onFailure) = (true, { _ in }, { _ in })
    transport.abort()
  }

  private func flush(payload: Int) {
    let bytes = session.takeOutgoing()
    guard !bytes.isEmpty else { return }
    unwritten.append(wire: bytes.count, payload: payload)
    if payload == 0 { control += bytes.count }
    transport.send(bytes)
  }

  private func handle(_ event: StreamEvent) {
    switch event {
    case .received(let bytes):
      let events = session.receive(bytes)
      flush(payload: 0)
      for event in events where !isClosed { handle(event) }
      if control > Self.controlLimit, !isClosed { giveUp() }
    case .written(let count):
      let written = unwritten.remove(written: count)
      control -= written.controlOctets
      if written.payload > 0 { onEvent(.written(written.payload)) }
    case .pong: break
    case .ended: end()
    }
  }

  private func handle(_ event: TLSCertificateEvent) {
    switch event {
    case .established:
      let waiting = early ?? []
      early = nil
      session.send(waiting)
      flush(payload: waiting.count)
    case .received(let bytes): onEvent(.received(bytes))
    case .ended: end()
    case .failed(let reason):
      onFailure(reason)
      end()
    }
  }

  /// Drops the connection of a peer that makes TLS answer and reads nothing.
  private func giveUp() {
    isClosed = true
    transport.abort()
    onEvent(.ended)
  }

  private func end() {
    guard !isClosed else { return }
    isClosed = true
    transport.close()
    onEvent(.ended)
  }
}
