import Loop
import Network
import Radio

/// Joins an RFCOMM link with the socket of `earshot-presenced`. The end of one ends the other. A side without buffer
/// space pauses the reading of the other.
@LoopActor
final class StreamRelay {
  /// Maximum time in which the program can read the last bytes of a link that has ended.
  private static let lingerTime = Duration.seconds(3)
  /// Maximum time in which the peer can accept the last bytes of a program that has closed its socket.
  private static let drainTime = Duration.seconds(60)

  private let link: any RadioStream
  private let local: SocketStream
  private let scheduler: any Scheduler
  private var fromLink: ArraySlice<UInt8> = []
  private var fromProgram: ArraySlice<UInt8> = []
  private var hasLinkEnded = false
  private var hasProgramEnded = false
  private var linger: Registration?
  private var onEnd: (@LoopActor () -> Void)?
  /// Number of bytes from the peer and from the program.
  private(set) var received: (link: UInt64, program: UInt64) = (0, 0)

  /// Joins a link with a socket.
  ///
  /// - Parameter onEnd: called once, when both sides are closed.
  init(
    _ link: any RadioStream, _ local: SocketStream, on scheduler: any Scheduler,
    onEnd: @escaping @LoopActor () -> Void
  ) {
    (self.link, self.local, self.scheduler, self.onEnd) = (link, local, scheduler, onEnd)
  }

  func begin() {
    local.start { [weak self] in self?.handle($0) }
    link.start { [weak self] in self?.handle($0) }
  }

  func close() {
    let report = onEnd
    (onEnd, linger) = (nil, nil)
    link.close()
    local.close()
    report?()
  }

  private func handle(_ event: RadioStreamEvent) {
    guard onEnd != nil else { return }
    switch event {
    case .received(let bytes):
      received.link += UInt64(bytes.count)
      fromLink += bytes
      pushToProgram()
    case .writable: pushToLink()
    case .closed:
      hasLinkEnded = true
      linger = scheduler.schedule(after: Self.lingerTime) { [weak self] in self?.close() }
      pushToProgram()
      pushToLink()
    }
  }

  private func handle(_ event: SocketStreamEvent) {
    guard onEnd != nil else { return }
    switch event {
    case .connected: break
    case .received(let bytes):
      received.program += UInt64(bytes.count)
      fromProgram += bytes
      pushToLink()
    case .writable: pushToProgram()
    case .ended:
      hasProgramEnded = true
      pushToLink()
      limitDraining()
    // Data that the program sent before it closed its socket is sent first, within a time limit.
    case .hungUp: limitDraining()
    case .closed: close()
    }
  }

  /// Closes both sides after `drainTime`, because a peer that accepts no bytes would occupy the link.
  private func limitDraining() {
    guard onEnd != nil, linger == nil else { return }
    linger = scheduler.schedule(after: Self.drainTime) { [weak self] in self?.close() }
  }

  private func pushToProgram() {
    if !fromLink.isEmpty { fromLink = fromLink.dropFirst(local.send(fromLink)) }
    if !hasLinkEnded { link.pauseReading(!fromLink.isEmpty) }
    if hasLinkEnded, fromLink.isEmpty { local.finish() }
  }

  private func pushToLink() {
    if hasLinkEnded { fromProgram = [] }
    if !fromProgram.isEmpty { fromProgram = fromProgram.dropFirst(link.send(fromProgram)) }
    if !hasProgramEnded { local.pauseReading(!fromProgram.isEmpty) }
    // The last bytes of a link that has ended still go to the program.
    if hasProgramEnded, fromProgram.isEmpty, !hasLinkEnded { close() }
  }
}
