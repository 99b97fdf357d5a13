import HCI
import Journal
import Loop

/// Preferences for new links while an application requests fast links.
public struct LinkPreferences: Hashable, Sendable {
  /// Connection intervals to request from peers, from 7.5 ms to 4 s, in steps of 1.25 ms; nil leaves them to the
  /// kernel.
  public var intervals: ClosedRange<Duration>?
  /// Whether to select LE 2M if the controller supports it.
  public var selects2M: Bool

  public init(intervals: ClosedRange<Duration>?, selects2M: Bool) {
    self.intervals = intervals
    self.selects2M = selects2M
  }

  /// Leaves all settings to the kernel.
  public static let kernel = LinkPreferences(intervals: nil, selects2M: false)
}

/// Makes new links of the adapter in use fast while that is requested, and restores the former settings afterwards.
@LoopActor
final class LinkSpeed {
  private let door: KernelChannel<ManagementSocket>
  private let onChange: @LoopActor () -> Void
  private var intervals: Lender<LinkIntervals, ReadDefaultSystemConfiguration, SetDefaultSystemConfiguration>?
  private var phys: Lender<LinkPHYs, GetPHYConfiguration, SetPHYConfiguration>?
  private var preferences: LinkPreferences
  private var isWanted = false
  private var events: Registration?
  private var resting: (@LoopActor () -> Void)?
  private var restLimit: Registration?
  private let scheduler: any Scheduler

  /// - Parameter onChange: called when `problems` may have changed.
  init(
    _ door: KernelChannel<ManagementSocket>, _ preferences: LinkPreferences, scheduler: any Scheduler,
    onChange: @escaping @LoopActor () -> Void
  ) {
    self.door = door
    self.preferences = preferences
    self.scheduler = scheduler
    self.onChange = onChange
    guard let socket = door.way else { return }
    intervals = Lender(
      LinkIntervals.self, socket, scheduler: scheduler, read: ReadDefaultSystemConfiguration(),
      write: { SetDefaultSystemConfiguration($0.difference(from: $1)) }, onChange: { [weak self] in self?.changed() })
    phys = Lender(
      LinkPHYs.self, socket, scheduler: scheduler, read: GetPHYConfiguration(),
      write: { value, _ in SetPHYConfiguration(selected: value.selected) },
      onChange: { [weak self] in self?.changed() })
    events = socket.onEvent { [weak self] event, index in
      guard case .indexRemoved = event else { return }
      self?.intervals?.handle(.removed(index))
      self?.phys?.handle(.removed(index))
    }
  }

  // MARK: Requests

  func want(_ isWanted: Bool) {
    self.isWanted = isWanted
    wish()
  }

  func prefer(_ preferences: LinkPreferences) {
    self.preferences = preferences
    wish()
  }

  /// Sets the adapter in use, which may have changed or returned; nil for none.
  func aim(at index: UInt16?) {
    intervals?.handle(.controller(index))
    phys?.handle(.controller(index))
  }

  private func wish() {
    let range = isWanted ? preferences.intervals : nil
    intervals?.handle(
      .wish(range.map { LinkIntervals.units($0.lowerBound)...LinkIntervals.units($0.upperBound) }))
    phys?.handle(.wish(isWanted && preferences.selects2M ? .le2M : nil))
    changed()
  }

  private func changed() {
    if let resting, isSettled {
      (self.resting, restLimit) = (nil, nil)
      resting()
    }
    onChange()
  }

  // MARK: Results

  /// Requested settings that are not in effect, and what to do; one sentence for each.
  var problems: [String] {
    guard isWanted, preferences != .kernel else { return [] }
    if case .shut(let why) = door {
      return [
        "New links have the kernel's default speed (\(why)). \(KernelChannels.remedy("CAP_NET_ADMIN")), or LinkInterval=kernel and"
          + " Link2M=no."
      ]
    }
    return [
      intervals?.problem.map {
        "New links have the kernel's connection interval, because the kernel refuses another one (\($0)). Use a newer kernel,"
          + " or set LinkInterval=kernel."
      },
      phys?.problem.map {
        "LE 2M is not selected, because the kernel refuses it (\($0)). Use a newer kernel, or set Link2M=no."
      },
    ].compactMap { $0 }
  }

  private var isSettled: Bool { (intervals?.isSettled ?? true) && (phys?.isSettled ?? true) }

  /// Restores all settings, and calls `then` once: when that is done, at the latest after `limit`.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    want(false)
    guard !isSettled else { return then() }
    resting = then
    restLimit = scheduler.schedule(after: limit) { [weak self] in
      guard let self, let resting else { return }
      (self.resting, restLimit) = (nil, nil)
      resting()
    }
  }
}

/// The connection intervals that the kernel requests from peers, and uses for its own links (Default System
/// Configuration).
///
/// As the peripheral the kernel requests another interval from a peer once, when the link has come up, if the peer's
/// interval is out of range. The request keeps the link's latency and supervision timeout; the defaults of these apply
/// to links that this machine makes.
/// Facts: bluez.md section 13.
enum LinkIntervals: LentSetting {
  typealias Value = DefaultSystemConfiguration

  /// Minimum and maximum interval, in units of 1.25 ms.
  typealias Wish = ClosedRange<UInt16>

  /// Maximum supervision timeout, in units of 10 ms (Core 5.4 Vol 4 Part E 7.8.12).
  static let longestTimeout = 3200

  static let unknown = "it has no such setting"

  /// Converts an interval to units of 1.25 ms.
  static func units(_ interval: Duration) -> UInt16 {
    UInt16(clamping: interval.components.seconds * 800 + interval.components.attoseconds / 1_250_000_000_000_000)
  }

  /// Returns the settings with the requested intervals in place of those of `value`. The supervision timeout is
  /// increased if it is too short for the longest interval; the latency is not changed.
  static func wished(_ wish: Wish, from value: Value) -> Value? {
    guard value[.minimumInterval] != nil, value[.maximumInterval] != nil else { return nil }
    var value = value
    value[.minimumInterval] = wish.lowerBound
    value[.maximumInterval] = wish.upperBound
    // The timeout must exceed twice the longest time in which a peripheral may be silent. It is set to three times that
    // time.
    let silence = Int(wish.upperBound) * (1 + Int(value[.latency] ?? 0))
    if let timeout = value[.supervisionTimeout], Int(timeout) * 4 <= silence {
      value[.supervisionTimeout] = UInt16(min(silence * 3 / 8 + 1, longestTimeout))
    }
    return value
  }

  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value {
    var result = value
    for (parameter, ours) in written.values where value[parameter] == ours {
      result[parameter] = original[parameter] ?? ours
    }
    return result
  }
}

/// LE 2M for new links (PHY Configuration). Kernel 6.1 does not select it, 6.12 does. Facts: bluez.md section 13.
enum LinkPHYs: LentSetting {
  typealias Value = PHYConfiguration

  /// The only request for this setting: that new links use LE 2M.
  enum Wish: Hashable, Sendable { case le2M }

  static let unknown = "it has no such setting"

  /// Adds LE 2M; a controller without it is not changed.
  static func wished(_ wish: Wish, from value: Value) -> Value? {
    guard value.supported.isSuperset(of: .le2M) else { return value }
    var value = value
    value.selected.formUnion(.le2M)
    return value
  }

  static func withoutUs(_ value: Value, written: Value, original: Value) -> Value {
    var value = value
    value.selected.subtract(written.selected.subtracting(original.selected))
    return value
  }
}
