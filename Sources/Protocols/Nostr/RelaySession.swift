import Common
import Crypto

/// Fault of a relay, for which its connection is closed. Each fault has a counter, and the relay is connected again
/// after a pause.
public enum RelayFault: Int, CaseIterable, Error, Hashable, Sendable {
  /// The transport was not ready in time.
  case connectTimeout
  /// The owner could not connect, or the connection ended.
  case disconnected
  /// A message has more than `NostrLimits.messageBytes`.
  case messageTooLong
  /// A message does not have the form of a relay's message.
  case malformedMessage
  /// The relay sends too many events or messages in a second.
  case flood
  /// The relay sent too many events with a wrong ID or signature, or without a subscription.
  case mistakes
  /// The relay did not answer in time.
  case stalled

  /// The name of the fault's counter.
  public var name: String {
    switch self {
    case .connectTimeout: "ConnectTimeouts"
    case .disconnected: "Disconnects"
    case .messageTooLong: "MessagesTooLong"
    case .malformedMessage: "MalformedMessages"
    case .flood: "Floods"
    case .mistakes: "UncheckedEvents"
    case .stalled: "Stalls"
    }
  }

  /// The reason, for a person.
  public var sentence: String {
    switch self {
    case .connectTimeout: "The relay did not answer within \(NostrLimits.connectTime.components.seconds) s."
    case .disconnected: "The connection ended."
    case .messageTooLong: "The relay sent a message of more than \(NostrLimits.messageBytes) bytes."
    case .malformedMessage: "The relay sent a message that is malformed or of another protocol."
    case .flood:
      "The relay sent more than \(NostrLimits.eventsPerSecond) events, or \(NostrLimits.otherMessagesPerSecond) other "
        + "messages, in a second."
    case .mistakes: "The relay sent events with wrong signatures, or events that were not requested."
    case .stalled: "The relay did not answer within \(NostrLimits.answerTime.components.seconds) s."
    }
  }
}

/// The state of a connection, for status displays.
public enum RelayState: Hashable, Sendable {
  /// The network is not ready, or the connection has no use.
  case idle
  /// The relay is connected again at this time, because of its last fault.
  case waiting(until: Instant)
  case connecting
  /// Connected; the relay has not yet sent its stored events.
  case catchingUp
  /// Connected, and events arrive as they are published.
  case live
  /// Connected, and the relay refuses the subscription.
  case unsubscribed

  /// The state's name on D-Bus.
  public var name: String {
    switch self {
    case .idle: "idle"
    case .waiting: "waiting"
    case .connecting: "connecting"
    case .catchingUp: "catching-up"
    case .live: "live"
    case .unsubscribed: "unsubscribed"
    }
  }
}

/// A connection's state and history, for status displays.
public struct RelayStatus: Hashable, Sendable {
  public let link: RelayLink
  public let state: RelayState
  /// The reason why the last connection or subscription ended; nil if none has ended.
  public let reason: String?
  /// Number of received events, and number of events of this machine that the relay has accepted.
  public let received: UInt64
  public let accepted: UInt64
}

/// The state of one connection: its reconnection, its subscription, its rate limits and its timeouts.
struct RelaySession: Sendable {
  /// Effects that the engine carries out, in this order.
  enum Effect: Hashable, Sendable {
    case connect
    case send(ClientMessage)
    case ping
    case close(RelayFault?)
    /// A well-formed event of the subscription.
    case event(ReceivedEvent)
    case refused(EventRefusal)
    /// Whether the relay has accepted an event of ours.
    case verdict(EventID, isAccepted: Bool)
    /// Events that the relay has neither accepted nor rejected, and will not answer.
    case lost([EventID])
    case challenge
    case notice(String)
  }

  private struct Subscription: Sendable {
    let id: SubscriptionID
    let requestedAt: Instant
    /// Number of stored events that the relay may still send.
    var storedLeft = NostrLimits.storedEvents
    var isLive = false
    var renewal: Instant
  }

  private struct Connection: Sendable {
    let openedAt: Instant
    var lastReceived: Instant
    var pingedAt: Instant?
    var subscription: Subscription?
    /// The subscription that was replaced; events for it may still arrive.
    var former: SubscriptionID?
    /// Time at which a subscription that the relay has closed is requested again.
    var resumption: Instant?
    var resumptionPause = Backoff(from: NostrLimits.firstPause, upTo: NostrLimits.longestPause)
    var events = TokenBucket(NostrLimits.eventsPerSecond)
    var others = TokenBucket(NostrLimits.otherMessagesPerSecond)
    var mistakes = 0
    /// Events of ours without a verdict, with the time of sending.
    var unanswered: [EventID: Instant] = [:]

    /// The time until which the relay must send the next stored event, or the end of stored events.
    func storedDeadline(_ subscription: Subscription) -> Instant {
      max(subscription.requestedAt, lastReceived).advanced(by: NostrLimits.answerTime)
    }
  }

  private enum Phase: Sendable {
    case idle
    case waiting(until: Instant)
    case connecting(since: Instant)
    case open(Connection)
  }

  private var phase = Phase.idle
  private var isWanted = false
  private var backoff = Backoff(from: NostrLimits.firstPause, upTo: NostrLimits.longestPause)
  private var random: SeededRandom
  private(set) var reason: String?
  private(set) var received: UInt64 = 0
  private(set) var accepted: UInt64 = 0

  init(random: SeededRandom) { self.random = random }

  var state: RelayState {
    switch phase {
    case .idle: .idle
    case .waiting(let until): .waiting(until: until)
    case .connecting: .connecting
    case .open(let connection):
      connection.subscription.map { $0.isLive ? .live : .catchingUp } ?? .unsubscribed
    }
  }

  var isOpen: Bool { if case .open = phase { true } else { false } }

  /// Whether a connection exists or is being made.
  var isActive: Bool {
    switch phase {
    case .idle, .waiting: false
    case .connecting, .open: true
    }
  }

  /// Whether fewer than `NostrLimits.unansweredEvents` of this machine's events are unanswered, so that another can be
  /// sent.
  var takesEvents: Bool {
    if case .open(let connection) = phase { connection.unanswered.count < NostrLimits.unansweredEvents } else { false }
  }

  /// Time at which the event `timer` is due; nil if nothing is scheduled.
  var deadline: Instant? {
    switch phase {
    case .idle: return nil
    case .waiting(let until): return until
    case .connecting(let since): return since.advanced(by: NostrLimits.connectTime)
    case .open(let connection): return deadline(of: connection)
    }
  }

  private func deadline(of connection: Connection) -> Instant {
    let idle =
      connection.pingedAt.map { $0.advanced(by: NostrLimits.answerTime) }
      ?? connection.lastReceived.advanced(by: NostrLimits.idleTime)
    var times = [idle]
    if let subscription = connection.subscription {
      times.append(subscription.isLive ? subscription.renewal : connection.storedDeadline(subscription))
    }
    if let resumption = connection.resumption { times.append(resumption) }
    if let oldest = connection.unanswered.values.min() { times.append(oldest.advanced(by: NostrLimits.verdictTime)) }
    return times.min() ?? idle
  }

  // MARK: Events

  /// Connects or disconnects: `isWanted` is whether the connection has a use and the network is ready.
  mutating func want(_ isWanted: Bool, at now: Instant) -> [Effect] {
    guard isWanted != self.isWanted else { return [] }
    self.isWanted = isWanted
    switch (isWanted, phase) {
    case (true, .idle):
      phase = .connecting(since: now)
      return [.connect]
    case (false, .connecting):
      phase = .idle
      return [.close(nil)]
    case (false, .open(let connection)):
      phase = .idle
      return [.close(nil)] + Self.lost(connection)
    case (false, .waiting):
      phase = .idle
      return []
    case (true, _), (false, .idle): return []
    }
  }

  /// Handles that the transport is connected, and requests the subscription.
  mutating func opened(_ filter: EventFilter, at now: Instant) -> [Effect] {
    guard case .connecting = phase else { return isOpen ? [] : [.close(nil)] }
    phase = .open(Connection(openedAt: now, lastReceived: now))
    return subscribe(filter, at: now)
  }

  /// The owner could not connect, or the connection ended.
  mutating func ended(_ reason: String, at now: Instant) -> [Effect] {
    switch phase {
    case .idle, .waiting: return []
    case .connecting:
      wait(reason, at: now)
      return []
    case .open(let connection):
      wait(reason, after: connection, at: now)
      return Self.lost(connection)
    }
  }

  /// Handles a sign of life without a message, such as a pong. It counts towards the limit of messages that are not
  /// events.
  mutating func ponged(at now: Instant) -> [Effect] {
    guard case .open(var connection) = phase else { return [] }
    guard connection.others.take(at: now) else { return fail(.flood, at: now) }
    connection.lastReceived = now
    connection.pingedAt = nil
    phase = .open(connection)
    return []
  }

  /// Sends an event of ours. The relay's answer is reported as an effect.
  mutating func publish(_ event: NostrEvent, at now: Instant) -> [Effect] {
    guard case .open(var connection) = phase else { return [] }
    connection.unanswered[event.id] = now
    phase = .open(connection)
    return [.send(.event(event))]
  }

  /// Requests stored events again at a time, because some were not handled.
  mutating func renew(at time: Instant) {
    guard case .open(var connection) = phase, var subscription = connection.subscription else { return }
    subscription.renewal = min(subscription.renewal, time)
    connection.subscription = subscription
    phase = .open(connection)
  }

  /// `deadline` has come.
  mutating func timer(_ filter: EventFilter, at now: Instant) -> [Effect] {
    switch phase {
    case .idle: return []
    case .waiting(let until):
      guard until <= now else { return [] }
      phase = .connecting(since: now)
      return [.connect]
    case .connecting(let since):
      return since.advanced(by: NostrLimits.connectTime) <= now ? fail(.connectTimeout, at: now) : []
    case .open(let connection): return timer(connection, filter, at: now)
    }
  }

  private mutating func timer(_ old: Connection, _ filter: EventFilter, at now: Instant) -> [Effect] {
    var connection = old
    let hasStalled =
      connection.subscription.map { !$0.isLive && connection.storedDeadline($0) <= now } ?? false
      || connection.unanswered.values.contains { $0.advanced(by: NostrLimits.verdictTime) <= now }
      || connection.pingedAt.map { $0.advanced(by: NostrLimits.answerTime) <= now } ?? false
    guard !hasStalled else { return fail(.stalled, at: now) }
    var effects: [Effect] = []
    if connection.pingedAt == nil, connection.lastReceived.advanced(by: NostrLimits.idleTime) <= now {
      connection.pingedAt = now
      effects.append(.ping)
    }
    let isDue = connection.subscription.map { $0.isLive && $0.renewal <= now } ?? false
    let isResumed = connection.resumption.map { $0 <= now } ?? false
    phase = .open(connection)
    return isDue || isResumed ? effects + subscribe(filter, at: now) : effects
  }

  // MARK: Messages of the relay

  mutating func receive(_ bytes: [UInt8], filter: EventFilter, at now: Instant) -> [Effect] {
    guard case .open(var connection) = phase else { return [] }
    connection.lastReceived = now
    connection.pingedAt = nil
    let message: RelayMessage
    do throws(RelayMessage.Problem) {
      message = try RelayMessage(bytes)
    } catch {
      return fail(error == .tooLong ? .messageTooLong : .malformedMessage, at: now)
    }
    if case .event(let subscription, let event) = message {
      phase = .open(connection)
      return receive(event, of: subscription, filter, at: now)
    }
    guard connection.others.take(at: now) else { return fail(.flood, at: now) }
    var effects: [Effect] = []
    switch message {
    case .event, .unknown: break
    case .endOfStored(let id):
      guard connection.subscription?.id == id else { break }
      connection.subscription?.isLive = true
      connection.subscription?.storedLeft = 0
      connection.resumptionPause.reset()
      connection.former = nil
    case .verdict(let id, let isAccepted, let reason):
      guard connection.unanswered.removeValue(forKey: id) != nil else { break }
      if isAccepted { accepted += 1 } else { self.reason = reason.isEmpty ? self.reason : reason }
      effects.append(.verdict(id, isAccepted: isAccepted))
    case .notice(let text): effects.append(.notice(text))
    case .closed(let id, let reason):
      guard connection.subscription?.id == id else { break }
      (connection.subscription, connection.former) = (nil, id)
      connection.resumption = now.advanced(by: connection.resumptionPause.next())
      self.reason = reason
    case .challenge: effects.append(.challenge)
    }
    phase = .open(connection)
    return effects
  }

  private mutating func receive(
    _ event: Result<ReceivedEvent, EventRefusal>, of id: SubscriptionID, _ filter: EventFilter, at now: Instant
  ) -> [Effect] {
    guard case .open(var connection) = phase else { return [] }
    received += 1
    let isCurrent = connection.subscription?.id == id
    if isCurrent, let left = connection.subscription?.storedLeft, left > 0 {
      connection.subscription?.storedLeft = left - 1
    } else if !connection.events.take(at: now) {
      return fail(.flood, at: now)
    }
    phase = .open(connection)
    guard isCurrent || connection.former == id else { return blame(.wrongKind, at: now) }
    switch event {
    case .failure(let refusal): return [.refused(refusal)]
    case .success(let event): return filter.admits(event.draft) ? [.event(event)] : blame(.wrongKind, at: now)
    }
  }

  /// Counts a refused event that is the fault of the relay, and closes the connection at the limit.
  mutating func blame(_ refusal: EventRefusal, at now: Instant) -> [Effect] {
    guard case .open(var connection) = phase else { return [.refused(refusal)] }
    connection.mistakes += 1
    phase = .open(connection)
    let isTooMuch = connection.mistakes >= NostrLimits.relayMistakes
    return [.refused(refusal)] + (isTooMuch ? fail(.mistakes, at: now) : [])
  }

  // MARK: Subscription and pauses

  private mutating func subscribe(_ filter: EventFilter, at now: Instant) -> [Effect] {
    guard case .open(var connection) = phase else { return [] }
    var effects: [Effect] = []
    if let old = connection.subscription {
      connection.former = old.id
      effects.append(.send(.close(old.id)))
    }
    // Each subscription has a random name, so that observers cannot link subscriptions by their names.
    let id = SubscriptionID(String(random.word(), radix: 16))
    connection.subscription = Subscription(
      id: id, requestedAt: now, renewal: now.advanced(by: NostrLimits.subscriptionLife))
    connection.resumption = nil
    phase = .open(connection)
    return effects + [.send(.request(id, [filter]))]
  }

  /// Closes the connection because of a fault of the relay, and schedules the next attempt.
  private mutating func fail(_ fault: RelayFault, at now: Instant) -> [Effect] {
    guard case .open(let connection) = phase else {
      wait(fault.sentence, at: now)
      return [.close(fault)]
    }
    wait(fault.sentence, after: fault == .stalled ? connection : nil, at: now)
    return [.close(fault)] + Self.lost(connection)
  }

  /// - Parameter connection: a connection that did nothing wrong; if it lasted, the pauses start again.
  private mutating func wait(_ reason: String, after connection: Connection? = nil, at now: Instant) {
    if let connection, connection.openedAt.duration(to: now) >= NostrLimits.stableTime { backoff.reset() }
    self.reason = reason
    guard isWanted else {
      phase = .idle
      return
    }
    // The pause is random, so that relays that fail at the same time are not connected at the same time.
    let factor = random.factor(in: 0.8...1.2)
    phase = .waiting(until: now.advanced(by: backoff.next() * factor))
  }

  private static func lost(_ connection: Connection) -> [Effect] {
    connection.unanswered.isEmpty ? [] : [.lost(Array(connection.unanswered.keys))]
  }
}
