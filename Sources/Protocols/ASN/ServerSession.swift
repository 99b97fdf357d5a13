import Bytes
import Common
import Crypto

/// Output of a server session, in order.
public enum ServerAction: Sendable {
  /// Send one segment, which is one frame on a transport with frames.
  case send([UInt8])
  /// Send a request to the store. `answer` handles its outcome with the same slot. The requests of a session are
  /// executed in order.
  case perform(StoreRequest, slot: UInt64?)
  /// Answer a command about other sessions, `who` or `iam`.
  case ask(Command, slot: UInt64)
  /// The login has changed. It is nil after a pause and at the end. Blobs are pushed to sessions with a login.
  case loggedIn(Login?)
  /// The client sent its first segment under the session's key, so the login is not a replay.
  case confirmed
  /// A login of this client was refused, which counts against its address.
  case loginFailed
  /// A blob from the client was dropped.
  case dropped(Refusal)
  /// A blob passed to `push` was sealed or will not be sent. Each push causes one such action.
  case released(Sum)
  case ping
  /// Close the connection; this is the last action. The transport first writes all earlier output, unless the reason is
  /// `slow` or `disconnected`.
  case close(CloseReason)
}

/// The server's side of one connection, as a state machine: octets and outcomes are inputs, segments and requests are
/// outputs.
/// Facts: asn.md sections 3 to 6
///
/// Answers are sent in the order of the requests. After a login, a resume or a quit, no input is read before its
/// acknowledgement is sent, because the key changes with it.
///
/// The session continues while its key has counter values for one more PDU of maximum length in each direction. Then no
/// input is read, pending requests are answered, and the client is redirected to the same server.
public struct ServerSession: Sendable {
  public struct Configuration: Sendable {
    /// The private encryption key of the server's service.
    public var encryption: X25519.PrivateKey
    /// The service's initial nonce, 24 octets.
    public var nonce: [UInt8]
    public var dialect = Dialect.seed
    /// Whether the transport has pings and frames, in which case the first frame must be the key.
    public var isFramed = true
    /// Whether the acknowledgement of a resume contains new keys, as with the server of 2014.
    public var rekeysAtResume = true
    /// Maximum size of a blob, in octets.
    public var blob = 1024 * 1024
    /// Maximum number of requests without an answer.
    public var inFlight = 64
    /// Maximum output that waits for the transport or to be sealed, in octets. While requests and answers use half of
    /// it, no input is read and no answer is requested from the store.
    public var waiting = 4 * 1024 * 1024
    /// Maximum number of octets that are sealed before the transport has accepted the earlier ones.
    public var window = 64 * 1024
    /// Maximum number of commands and blobs per second.
    public var commands = 50
    /// Maximum number of commands and blobs in one burst.
    public var burst = 200
    public var keyTime = Duration.seconds(10)
    public var loginTime = Duration.seconds(10)
    public var pingTime = Duration.seconds(60)
    public var idleTime = Duration.seconds(600)
    public var suspendedTime = Duration.seconds(24 * 3600)
    /// Maximum time for writing the remaining output when the session ends.
    public var closingTime = Duration.seconds(10)

    public init(encryption: X25519.PrivateKey, nonce: [UInt8]) {
      (self.encryption, self.nonce) = (encryption, nonce)
    }
  }

  private struct Slot {
    let number: UInt64
    let ask: SessionState.Ask
    let requester: Requester
    /// Size of the request, in octets.
    let octets: Int
    var outcome: StoreOutcome?
    /// Number of blobs in the outcome's stream that were sent.
    var streamed = 0
    /// Whether more blobs of the stream were requested from the store.
    var isLoading = false
    /// Size of the request in octets, or of its answer if there is one.
    var held: Int { outcome?.octets ?? octets }
  }

  /// The effects of an acknowledgement with a new key. They begin when the acknowledgement is sealed.
  private struct KeyChange {
    let channel: BoxChannel
    /// The new state of the login; nil after a resume.
    let login: StoreOutcome.LoginState?
  }

  public let id: SessionID
  public private(set) var state = SessionState.opened
  public private(set) var login: Login?
  /// Whether the client has sent a segment under the key of its login. A replayed login is never confirmed in this
  /// way.
  public private(set) var isConfirmed = false
  /// Octets of segments that the transport has not written.
  public private(set) var waiting = 0
  private var outbox = Outbox()
  private var keyChange: KeyChange?
  /// Reason and time limit of closing, while a closed session waits for its output to be written; nil otherwise.
  private var closing: (reason: CloseReason, end: Instant)?
  /// The time of the last event.
  private var clock: Instant
  private let configuration: Configuration
  private var stream = SegmentStream()
  private var channel: BoxChannel?
  private var peer: X25519.PublicKey?
  private var unverified: [UInt8]?
  private var slots: [Slot] = []
  private var lastSlot: UInt64 = 0
  private var isBarred = false
  /// Whether the counter values of the key are nearly used up. The client is then redirected when all requests are
  /// answered.
  private var isEnding = false
  private var bucket: TokenBucket
  private var heldUntil: Instant?
  private var since: Instant
  private var heard: Instant
  private var pinged: Instant
  private var trace = Trace()
  private var actions: [ServerAction] = []

  public init(_ id: SessionID, configuration: Configuration, at now: Instant) {
    (self.id, self.configuration) = (id, configuration)
    let period = Double(configuration.burst) / Double(max(1, configuration.commands))
    bucket = TokenBucket(configuration.burst, each: .seconds(period))
    (since, heard, pinged, clock) = (now, now, now, now)
  }

  /// The client's ephemeral key; nil until it was received.
  public var ephemeral: UserKey? { peer.map { UserKey($0) } }

  /// Whether the transport must not read more for now.
  public var isHolding: Bool { state == .closed || isBarred || isEnding || isFull || heldUntil != nil }

  private var isFull: Bool {
    let half = configuration.waiting / 2
    return slots.count >= configuration.inFlight || unsent > half || slots.reduce(0) { $0 + $1.held } > half
  }

  /// Octets of output that wait for the transport, or to be sealed.
  var unsent: Int { waiting + outbox.own + outbox.shared }

  /// Octets of answers that are complete but must wait for the answers to earlier requests.
  var answers: Int { slots.reduce(0) { $0 + ($1.outcome?.octets ?? 0) } }

  /// Maximum length of a PDU, in octets.
  private var longest: Int {
    configuration.blob + max(Blob.fixedHeader + Limits.name, PDU.header + Limits.argumentBytes)
  }

  /// Maximum length of a PDU in the present state, in octets: before a login there are no blobs.
  private var limit: Int { login == nil ? PDU.header + Limits.argumentBytes : longest }

  /// Octets of memory that only this session uses: waiting output, answers and incomplete input.
  public var held: Int { waiting + outbox.own + answers + stream.pending + (channel?.partialCount ?? 0) }

  /// Octets of `held`, plus those of pushed blobs that other sessions may share.
  var footprint: Int { held + outbox.shared }

  /// Sets the time for an event that does not contain its own time.
  mutating func setClock(_ now: Instant) { clock = now }

  // MARK: Events

  /// Handles octets from the transport: a frame, or a portion of any size.
  ///
  /// - Parameter epoch: the time in nanoseconds since 1970.
  public mutating func receive(
    _ bytes: some Collection<UInt8>, random: inout some RandomSource, at now: Instant, epoch: UInt64
  ) -> [ServerAction] {
    guard state != .closed, !bytes.isEmpty else { return [] }
    clock = now
    if configuration.isFramed, peer == nil, bytes.count != UserKey.size {
      close(.badKey)
      return takeActions()
    }
    stream.receive(bytes)
    process(random: &random, at: now, epoch: epoch)
    return takeActions()
  }

  /// Handles the outcome of a request.
  public mutating func answer(
    _ slot: UInt64, _ outcome: StoreOutcome, random: inout some RandomSource, at now: Instant, epoch: UInt64
  ) -> [ServerAction] {
    guard state != .closed, let index = slots.firstIndex(where: { $0.number == slot }) else { return [] }
    clock = now
    if slots[index].isLoading, outcome.result != .success {
      // The store cannot read the blobs: the request ends with its sentence.
      (slots[index].isLoading, slots[index].outcome) = (false, outcome)
    } else if slots[index].isLoading {
      slots[index].isLoading = false
      slots[index].streamed += max(1, outcome.consumed)
      for blob in outcome.loaded { transmit(.blob(blob), epoch: epoch) }
    } else if slots[index].outcome == nil {
      slots[index].outcome = outcome
    }
    flush(random: &random, at: now, epoch: epoch)
    process(random: &random, at: now, epoch: epoch)
    return takeActions()
  }

  /// Sends a blob that the session may receive.
  public mutating func push(_ blob: Blob, epoch: UInt64) -> [ServerAction] {
    if state == .established {
      transmit(.blob(blob), pushed: blob.sum, epoch: epoch)
    } else {
      actions.append(.released(blob.sum))
    }
    return takeActions()
  }

  /// Handles the report that the transport has written `count` octets.
  public mutating func wrote(
    _ count: Int, random: inout some RandomSource, at now: Instant, epoch: UInt64
  ) -> [ServerAction] {
    waiting = max(0, waiting - count)
    clock = now
    pump()
    guard state != .closed else { return takeActions() }
    flush(random: &random, at: now, epoch: epoch)
    process(random: &random, at: now, epoch: epoch)
    return takeActions()
  }

  /// The client's ephemeral key if these octets complete it; nil if they do not, or if the key is already known.
  public func key(completedBy bytes: some Collection<UInt8>) -> UserKey? {
    guard peer == nil, state != .closed, stream.pending + bytes.count >= UserKey.size else { return nil }
    var stream = stream
    stream.receive(bytes.prefix(UserKey.size))
    return stream.take(UserKey.size).flatMap { try? UserKey($0) }
  }

  /// Handles the peer's answer to a ping. A pong is not authenticated, so it extends the session but does not confirm
  /// its login.
  public mutating func heardPong(at now: Instant) { heard = now }

  /// Time from which the server may close an unconfirmed session in favour of another connection: the end of its idle
  /// time after login. Nil if the session is confirmed or not logged in.
  var yields: Instant? {
    state == .established && !isConfirmed ? since.advanced(by: configuration.idleTime) : nil
  }

  /// Redirects the client to a URL; if it is empty, to the same server after at least ten seconds.
  public mutating func redirect(to url: String, epoch: UInt64) -> [ServerAction] {
    guard state != .closed else { return [] }
    sendRedirect(url)
    return takeActions()
  }

  /// Ends the session from this side.
  public mutating func end(_ reason: CloseReason) -> [ServerAction] {
    if closing != nil, reason.dropsOutput { finishClosing(reason) } else { close(reason) }
    return takeActions()
  }

  /// Handles the end of the transport.
  public mutating func disconnected() -> [ServerAction] {
    if let closing { finishClosing(closing.reason) } else { close(.disconnected) }
    return takeActions()
  }

  /// Time at which the event `timer` is due; nil in a closed session.
  public var deadline: Instant? {
    guard state != .closed else { return closing?.end }
    return [heldUntil, end?.at, ping].compactMap { $0 }.min()
  }

  public mutating func timer(
    random: inout some RandomSource, at now: Instant, epoch: UInt64
  ) -> [ServerAction] {
    clock = now
    guard state != .closed else {
      if let closing, now >= closing.end { finishClosing(.slow) }
      return takeActions()
    }
    if let heldUntil, now >= heldUntil {
      self.heldUntil = nil
      process(random: &random, at: now, epoch: epoch)
    }
    if let end, now >= end.at { close(end.reason) }
    if let ping, now >= ping {
      pinged = now
      actions.append(.ping)
    }
    return takeActions()
  }

  private var isWaitingForStore: Bool { slots.contains(where: { $0.outcome == nil }) }

  private var end: (at: Instant, reason: CloseReason)? {
    switch state {
    case .opened where peer == nil: (since.advanced(by: configuration.keyTime), .noKey)
    // The time limits of the client do not apply while the store works.
    case .opened where isWaitingForStore: nil
    case .provisional where isWaitingForStore: nil
    case .opened, .provisional: (since.advanced(by: configuration.loginTime), .noLogin)
    case .suspended: (heard.advanced(by: configuration.suspendedTime), .suspendedTooLong)
    // A transport without pings reports by itself that its peer is gone.
    case .established where !configuration.isFramed: nil
    case .established, .quitting: (heard.advanced(by: configuration.idleTime), .idle)
    case .closed: nil
    }
  }

  private var ping: Instant? {
    state == .established && configuration.isFramed ? max(heard, pinged).advanced(by: configuration.pingTime) : nil
  }

  // MARK: Input

  private mutating func process(random: inout some RandomSource, at now: Instant, epoch: UInt64) {
    while !isHolding {
      if peer == nil {
        guard let key = stream.take(UserKey.size) else { return }
        begin(key, at: now)
        continue
      }
      do throws(SegmentError) {
        guard let segment = try stream.next() else { return }
        let limit = limit
        let bytes = try channel?.open(segment, limit: limit)
        noteAuthentic(at: now)
        if let bytes { handle(bytes, random: &random, at: now, epoch: epoch) }
        // The client cannot send under this key any more, unless the acknowledgement of this PDU brings another.
        if state != .closed, !isBarred, channel?.peerSegmentsLeft == 0 { sendRedirect("") }
      } catch {
        return close(.segment(error))
      }
    }
  }

  /// Records that the client sent a segment under the current key. Nothing else proves that the client is present.
  private mutating func noteAuthentic(at now: Instant) {
    heard = now
    guard login != nil, !isConfirmed else { return }
    isConfirmed = true
    actions.append(.confirmed)
  }

  private mutating func begin(_ bytes: [UInt8], at now: Instant) {
    do {
      let key = try X25519.PublicKey(bytes)
      channel = try BoxChannel(own: configuration.encryption, peer: key, nonce: configuration.nonce)
      peer = key
      since = now
    } catch {
      close(.badKey)
    }
  }

  private mutating func handle(
    _ bytes: [UInt8], random: inout some RandomSource, at now: Instant, epoch: UInt64
  ) {
    let pdu: PDU
    do throws(PDUError) {
      pdu = try PDU(bytes, dialect: configuration.dialect)
    } catch {
      if let result = error.result, login != nil {
        let refusal = Acknowledgement(refusing: PDU.requester(of: bytes), result)
        transmit(.acknowledge(refusal), epoch: epoch)
      }
      return close(.pdu(error))
    }
    trace.note(received: true, pdu, octets: bytes.count)
    var command: Command?
    var malformed: WireError?
    if case .exec(_, let data) = pdu {
      do throws(WireError) {
        command = try Command(reading: data, dialect: configuration.dialect)
      } catch {
        malformed = error
      }
    }
    // Also a PDU that has no answer counts against the rate.
    if !bucket.take(at: now) { bucket.spend(1) }
    if !bucket.take(0, at: now, reserve: 1) {
      heldUntil = now.advanced(by: .nanoseconds(1_000_000_000 / Int64(max(1, configuration.commands))))
    }
    guard let ask = SessionState.Ask(pdu, command: command) else {
      // No PDU awaits an acknowledgement here, and only a server sends redirects.
      if case .redirect(let requester, _) = pdu { open(.command(""), requester, 0, answer: Refusal(.unexpected)) }
      return flush(random: &random, at: now, epoch: epoch)
    }
    accept(pdu, ask, command, malformed, octets: bytes.count)
    noteCounters()
    flush(random: &random, at: now, epoch: epoch)
  }

  private mutating func accept(
    _ pdu: PDU, _ ask: SessionState.Ask, _ command: Command?, _ malformed: WireError?, octets: Int
  ) {
    let requester = pdu.requester
    guard state.accepts(ask) else {
      if case .blob = pdu { return actions.append(.dropped(Refusal(.unexpected))) }
      return open(ask, requester, octets, answer: Refusal(.unexpected))
    }
    switch pdu {
    case .exec:
      guard let command else {
        let why = malformed.map { "The command is malformed: \($0)" }
        return open(ask, requester, octets, answer: Refusal(.illFormatted, why))
      }
      switch command.arguments.first {
      case "trace": open(ask, requester, octets, outcome: trace.execute(Array(command.arguments.dropFirst())))
      case "who" where configuration.dialect == .year2015, "iam" where configuration.dialect == .year2015:
        open(ask, requester, octets)
        actions.append(.ask(command, slot: lastSlot))
      default: perform(ask, requester, octets, .exec(command))
      }
    case .login(_, let user, let signature):
      isBarred = true
      unverified = signature
      perform(ask, requester, octets, .login(user, signature: signature))
    case .blob(let blob): perform(ask, requester, octets, .blob(blob))
    case .pause:
      // Nothing is pushed from here on.
      state = .suspended
      actions.append(.loggedIn(nil))
      perform(ask, requester, octets, .endMarks)
    case .resume:
      isBarred = true
      open(ask, requester, octets, outcome: StoreOutcome())
    case .quit:
      isBarred = true
      state = .quitting
      open(ask, requester, octets, outcome: StoreOutcome())
    case .acknowledge, .redirect: break
    }
  }

  private mutating func perform(
    _ ask: SessionState.Ask, _ requester: Requester, _ octets: Int, _ kind: StoreRequest.Kind
  ) {
    open(ask, requester, octets)
    request(kind, slot: lastSlot)
  }

  private mutating func request(_ kind: StoreRequest.Kind, slot: UInt64?) {
    guard let ephemeral else { return }
    var request = StoreRequest(
      session: id, login: login, ephemeral: ephemeral, dialect: configuration.dialect, kind: kind)
    if state == .provisional { request.unverified = unverified }
    actions.append(.perform(request, slot: slot))
  }

  private mutating func open(
    _ ask: SessionState.Ask, _ requester: Requester, _ octets: Int, answer: Refusal? = nil,
    outcome: StoreOutcome? = nil
  ) {
    lastSlot += 1
    slots.append(
      Slot(
        number: lastSlot, ask: ask, requester: requester, octets: octets,
        outcome: answer.map { StoreOutcome($0) } ?? outcome))
  }

  // MARK: Output

  /// Sends the answers that are ready, up to the first one that is not.
  private mutating func flush(random: inout some RandomSource, at now: Instant, epoch: UInt64) {
    // A blob has no answer, so it may be done before those in front of it.
    slots.removeAll { slot in
      guard slot.ask == .blob, let outcome = slot.outcome else { return false }
      if outcome.result != .success {
        let sentence = String(decoding: outcome.data, as: UTF8.self)
        actions.append(.dropped(outcome.trouble.map { Refusal($0) } ?? Refusal(outcome.result, sentence)))
      }
      return true
    }
    while state != .closed, let slot = slots.first(where: { $0.ask != .blob }), let outcome = slot.outcome {
      guard unsent <= configuration.waiting / 2, !slot.isLoading else { return }
      // Blobs have no acknowledgement of their own: that of the quit says that they were handled.
      if slot.ask == .quit, slots.contains(where: { $0.ask == .blob }) { return }
      let rest = outcome.stream.dropFirst(slot.streamed)
      if !rest.isEmpty {
        if let index = slots.firstIndex(where: { $0.number == slot.number }) { slots[index].isLoading = true }
        return request(
          .load(Array(rest.prefix(64)), budget: configuration.waiting / 4), slot: slot.number)
      }
      slots.removeAll { $0.number == slot.number }
      finish(slot, outcome, random: &random, at: now, epoch: epoch)
    }
    if isEnding, slots.isEmpty, state != .closed { sendRedirect("") }
  }

  private mutating func finish(
    _ slot: Slot, _ outcome: StoreOutcome, random: inout some RandomSource, at now: Instant, epoch: UInt64
  ) {
    var acknowledgement = Acknowledgement(slot.requester, outcome.result, data: outcome.data)
    var next: BoxChannel?
    let changesKey = slot.ask == .login && outcome.login != nil || slot.ask == .resume && configuration.rekeysAtResume
    if changesKey {
      guard let (channel, data) = newChannel(random: &random) else { return close(.segment(.weakKey)) }
      (next, acknowledgement.data) = (channel, data)
    }
    transmit(.acknowledge(acknowledgement), epoch: epoch)
    guard state != .closed else { return }
    if let next {
      // Nothing is read or pushed before the acknowledgement is sealed under the old key.
      keyChange = KeyChange(channel: next, login: outcome.login)
      outbox.appendKeyChange()
      return pump()
    }
    switch slot.ask {
    case .login:
      // A failure of the store does not mean that the login is invalid.
      if outcome.trouble == nil { actions.append(.loginFailed) }
      close(.loginRefused)
    case .resume: resumed()
    case .quit: close(.quit)
    default:
      if outcome.login != nil { setLogin(outcome.login) }
      if outcome.closes {
        actions.append(.loginFailed)
        close(.loginRefused)
      }
    }
  }

  private mutating func resumed() {
    isBarred = false
    state = .established
    actions.append(.loggedIn(login))
  }

  /// Changes the key, once everything under the old key is sealed.
  private mutating func changeKey() {
    guard let change = keyChange else { return }
    (channel, keyChange) = (change.channel, nil)
    guard state != .closed else { return }
    guard change.login != nil else { return resumed() }
    isBarred = false
    since = clock
    setLogin(change.login)
  }

  private mutating func setLogin(_ change: StoreOutcome.LoginState?) {
    switch change {
    case .established(let login):
      (self.login, state, unverified) = (login, .established, nil)
      actions.append(.loggedIn(login))
    case .provisional(let login): (self.login, state) = (login, .provisional)
    case nil: break
    }
  }

  /// Makes a key from a new ephemeral key pair and a new nonce. Returns it with the data from which the client derives
  /// the same key.
  private mutating func newChannel(random: inout some RandomSource) -> (BoxChannel, [UInt8])? {
    guard let peer else { return nil }
    let ephemeral = X25519.PrivateKey(ephemeralFrom: &random)
    let nonce = random.bytes(BoxChannel.nonceSize)
    guard let channel = try? BoxChannel(own: ephemeral, peer: peer, nonce: nonce) else { return nil }
    return (channel, ephemeral.publicKey.bytes + nonce)
  }

  /// Sends a PDU. One segment of each key is reserved for a redirect.
  ///
  /// - Parameter pushed: the sum of a blob that other sessions may share.
  private mutating func transmit(_ pdu: PDU, pushed: Sum? = nil, epoch: UInt64) {
    var isTaken = false
    defer { if !isTaken, let pushed { actions.append(.released(pushed)) } }
    guard state != .closed, let left = channel?.segmentsLeft else { return }
    guard unsent <= configuration.waiting else { return close(.slow) }
    var pdu = pdu
    if case .acknowledge(var acknowledgement) = pdu {
      acknowledgement.time = epoch
      pdu = .acknowledge(acknowledgement)
    }
    let bytes = pdu.bytes(dialect: configuration.dialect)
    guard outbox.segments + BoxChannel.segments(bytes.count) < left else { return sendRedirect("") }
    trace.note(received: false, pdu, octets: bytes.count)
    isTaken = true
    outbox.append(bytes, pushed: pushed)
    pump()
    noteCounters()
  }

  /// Checks whether each direction has counter values for another PDU of maximum length and a redirect.
  private mutating func noteCounters() {
    let needed = BoxChannel.segments(longest) + 1
    if let channel, !isBarred, min(channel.segmentsLeft - outbox.segments, channel.peerSegmentsLeft) < needed {
      isEnding = true
    }
  }

  private mutating func sendRedirect(_ url: String) {
    outbox.append(PDU.redirect(Requester("redirect"), url: url).bytes(dialect: configuration.dialect))
    close(.redirected)
  }

  /// Seals as much output as the transport accepts, and ends a closing session once all output is written.
  private mutating func pump() {
    while waiting < configuration.window, channel != nil {
      do throws(SegmentError) {
        switch try outbox.next(&channel) {
        case .segment(let segment, let sum)?:
          waiting += segment.count
          actions.append(.send(segment))
          if let sum { actions.append(.released(sum)) }
        case .keyChange?: changeKey()
        case nil:
          if waiting == 0, let closing { finishClosing(closing.reason) }
          return
        }
      } catch {
        if closing != nil { finishClosing(.segment(error)) } else { close(.segment(error)) }
      }
    }
  }

  private mutating func close(_ reason: CloseReason) {
    guard state != .closed else { return }
    if login != nil, state != .provisional {
      actions.append(.loggedIn(nil))
      request(.endMarks, slot: nil)
    }
    state = .closed
    (slots, unverified) = ([], nil)
    guard !reason.dropsOutput, channel != nil else { return finishClosing(reason) }
    closing = (reason, clock.advanced(by: configuration.closingTime))
    pump()
  }

  private mutating func finishClosing(_ reason: CloseReason) {
    for sum in outbox.removeAll() { actions.append(.released(sum)) }
    (closing, channel, keyChange, waiting) = (nil, nil, nil, 0)
    actions.append(.close(reason))
  }

  private mutating func takeActions() -> [ServerAction] {
    defer { actions = [] }
    return actions
  }
}
