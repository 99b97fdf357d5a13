import Common
import DBus
import Glibc
import Loop
import MeshViews
import Tool

/// Connection of a chat to the service: receives signals, polls values without a signal, and performs actions.
///
/// The service signals changes of peers and files. Signal strengths and times of last reception have no signal, so
/// everything is also polled at intervals.
@LoopActor
final class ChatLink {
  private let client: Client
  private let isPatient: Bool
  private let onEvent: @LoopActor (ChatEvent) -> Void
  /// Returns the number of the latest message that the chat has, after which the service lists new ones.
  private let latest: @LoopActor () -> UInt32
  private var registrations: [Registration] = []
  private var timer: Registration?
  private(set) var isThere = false
  /// Number of starts and stops of the service. A reply is ignored if the number has changed since the request.
  private var life = 0
  private var isAsking = false
  /// Whether the service sends this program signals about objects of the group.
  private var isWatching = false
  private var mustAskAgain = false
  /// Whether a peer or a file has changed since the last poll.
  private var mustAskSoon = false
  /// Signals received during a poll. The replies of the poll may be older than the signals, so they are applied
  /// afterwards.
  private var changes: [ChatEvent] = []
  private var underWay = 0
  /// Last queued action. The service gets one action after the other.
  private var lane: Task<Void, Never>?
  private var isKnown = false
  private var whenKnown: CheckedContinuation<Void, Never>?
  private var whenIdle: CheckedContinuation<Void, Never>?

  private static let interval = Duration.seconds(10)
  private static let intervalWithoutSignals = Duration.seconds(2)
  /// Delay from a signal about a peer or a file to the poll, so that one poll covers several signals.
  private static let gathering = Duration.milliseconds(200)
  /// Interval of retries after the service reports a full queue.
  private static let limitPause = Duration.seconds(1)
  /// Maximum retries after the service reports a full queue.
  private static let limitTries = 120
  /// Timeout of a proof. The service ends it earlier.
  private static let proofLimit = Duration.seconds(30)

  /// - Parameter isPatient: whether texts are retried while the service's queue is full, as for input from a file.
  init(
    _ client: Client, isPatient: Bool = false, latest: @escaping @LoopActor () -> UInt32,
    onEvent: @escaping @LoopActor (ChatEvent) -> Void
  ) {
    self.client = client
    self.isPatient = isPatient
    self.latest = latest
    self.onEvent = onEvent
  }

  /// Connects and checks permissions. Returns when it is known whether the service runs.
  ///
  /// - Throws: `Failure` if there is no bus, no mesh, or no permission.
  func begin() async throws(Failure) {
    try await client.connect()
    do throws(Failure) {
      let objects = try await client.objects()
      guard MeshView(objects: objects) != nil else { throw MeshNames.feature.isOff }
      // Checks the permission of the group before the screen is opened.
      _ = try await client.meshMessages(after: .max, limit: 1)
    } catch {
      if error.code != .notRunning { throw error }
    }
    registrations = [
      client.onSignal { [weak self] in self?.signal($0) },
      client.bus.watchName(client.service) { [weak self] in self?.ownerChanged($0) },
    ]
    if !isKnown { await withCheckedContinuation { whenKnown = $0 } }
  }

  func end() {
    registrations = []
    timer = nil
    life += 1
  }

  private func ownerChanged(_ owner: String?) {
    life += 1
    changes = []
    isThere = owner != nil
    isWatching = false
    onEvent(isThere ? .serviceCame : .serviceWent)
    timer = nil
    if isThere { ask() }
    isKnown = true
    whenKnown?.resume()
    whenKnown = nil
  }

  private func signal(_ message: Message) {
    guard message.path == MeshNames.path else {
      tellRename(message)
      return askSoon(about: message)
    }
    if message.interface == MeshNames.interface,
      ["MessageReceived", "FileReceived", "FileStateChanged"].contains(message.member)
    {
      ask()
    } else if message.interface == MeshNames.interface, message.member == "MessageStateChanged",
      let number = message.arguments.first?.asUInt32, let word = message.arguments.last?.asString
    {
      let event = ChatEvent.stateChanged(message: number, MeshMessageView.State(rawValue: word) ?? .unknown)
      if isAsking { changes.append(event) }
      onEvent(event)
    } else if message.interface == MeshNames.interface, message.member == "MessageWentByUplink",
      let number = message.arguments.first?.asUInt32
    {
      let event = ChatEvent.wentByUplink(message: number)
      if isAsking { changes.append(event) }
      onEvent(event)
    } else if message.changedProperties?.interface == MeshNames.interface {
      ask()
    }
  }

  /// Reports the new nickname of a favourite or verified peer.
  private func tellRename(_ message: Message) {
    guard message.interface == MeshNames.peerInterface, message.member == "Renamed",
      let before = message.arguments.first?.asString, let now = message.arguments.last?.asString,
      let path = message.path?.string, path.hasPrefix(MeshNames.path(ofPeer: "").string)
    else { return }
    let peer = String(path.dropFirst(MeshNames.path(ofPeer: "").string.count))
    onEvent(.renamed(peer: peer, before: before, now: now))
  }

  /// Schedules a poll after a signal about a peer or a file.
  private func askSoon(about message: Message) {
    let path = message.arguments.first?.asObjectPath ?? message.path
    guard isThere, !mustAskSoon, path?.isWithin(MeshNames.path) == true else { return }
    mustAskSoon = true
    if !isAsking { askLater() }
  }

  private func askLater() {
    let interval = mustAskSoon ? Self.gathering : isWatching ? Self.interval : Self.intervalWithoutSignals
    timer = EventLoop.shared.schedule(after: interval) { [weak self] in self?.ask() }
  }

  // MARK: Requests

  /// Polls all values that may have changed, and polls again if more changes happen meanwhile.
  func ask() {
    guard !isAsking else {
      mustAskAgain = true
      return
    }
    isAsking = true
    Task { @LoopActor in
      repeat {
        (self.mustAskAgain, self.mustAskSoon) = (false, false)
        await self.askOnce()
      } while self.mustAskAgain
      self.isAsking = false
      self.changes = []
      self.settle()
      if self.isThere {
        self.askLater()
      }
    }
  }

  private func askOnce() async {
    let life = life
    do throws(Failure) {
      if !isWatching {
        let isWatching = try await client.watchGroup()
        guard life == self.life else { return }
        self.isWatching = isWatching
      }
      let objects = try await client.objects()
      guard life == self.life else { return }
      if let node = MeshView(objects: objects) { onEvent(.node(node)) }
      onEvent(.peers(MeshPeerView.all(objects)))
      onEvent(.files(MeshFileView.all(objects)))
      while true {
        let after = latest()
        let messages = try await client.meshMessages(after: after)
        guard life == self.life else { return }
        guard !messages.isEmpty else { break }
        onEvent(.messages(messages))
        for change in changes { onEvent(change) }
        // A service that repeats messages would otherwise cause an endless loop.
        guard latest() > after else { break }
      }
    } catch {
      // The end of the service is signalled; other failures are retried with the next poll.
    }
  }

  // MARK: Actions

  func perform(_ action: ChatAction) {
    underWay += 1
    // A proof takes up to 30 s; other actions do not wait for it.
    let before = action.isQuick ? lane : nil
    let task = Task { @LoopActor in
      await before?.value
      do throws(Failure) {
        try await self.callPatiently(action)
        self.onEvent(.done(action))
        self.ask()
      } catch {
        self.onEvent(.failed(action, error.text))
      }
      self.underWay -= 1
      self.settle()
    }
    if action.isQuick { lane = task }
  }

  /// Returns when the service has answered all actions so far, except proofs.
  func taken() async { await lane?.value }

  /// Returns when all actions and polls have ended.
  func settled() async {
    guard underWay > 0 || isAsking else { return }
    await withCheckedContinuation { whenIdle = $0 }
  }

  private func settle() {
    guard underWay == 0, !isAsking, let waiting = whenIdle else { return }
    whenIdle = nil
    waiting.resume()
  }

  private func callPatiently(_ action: ChatAction) async throws(Failure) {
    for _ in 0..<(isPatient && action.isText ? Self.limitTries : 0) {
      do throws(Failure) { return try await call(action) } catch { if !error.isOfLimit { throw error } }
      var timer: Registration?
      await withCheckedContinuation { continuation in
        timer = EventLoop.shared.schedule(after: Self.limitPause) { continuation.resume() }
      }
      timer?.cancel()
    }
    try await call(action)
  }

  /// Expands `~/` at the beginning of a path to the home directory.
  private static func expanded(_ path: String) -> String {
    guard path.hasPrefix("~/"), let home = getenv("HOME") else { return path }
    return String(cString: home) + path.dropFirst(1)
  }

  private func call(_ action: ChatAction) async throws(Failure) {
    switch action {
    case .say(let text): try await client.mesh("Say", .string(text))
    case .tell(let peer, let text): try await client.mesh("Tell", .string(peer), .string(text))
    case .markRead(let number): try await client.mesh("MarkRead", .uint32(number))
    case .setNickname(let name): try await client.mesh("SetNickname", .string(name))
    case .favourite(let peer, let isSo): try await client.meshPeer(peer, "Favourite", .bool(isSo))
    case .block(let peer, let isSo): try await client.meshPeer(peer, "Block", .bool(isSo))
    case .sendFile(let path, let peer):
      let file = try InputFile(Self.expanded(path), name: "file")
      let name = String(path.split(separator: "/").last ?? "file")
      try await client.mesh(
        "SendFile", .descriptor(file.descriptor), .string(name), .string(""), .string(peer))
    case .verify(let peer, let fingerprint): try await client.meshPeer(peer, "Verify", .string(fingerprint))
    case .verifyCode(let code):
      guard let peer = try await client.mesh("VerifyCode", .string(code)).first?.asString else { return }
      let proof = try await client.proof(of: peer, within: Self.proofLimit)
      onEvent(.proof(peer: peer, proof))
    case .quit: break
    }
  }
}
