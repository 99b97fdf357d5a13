import Common
import HCI
import Testing

@testable import BlueZ

@Suite("Temporary changes of controller settings")
struct LoanTests {
  typealias Intervals = Loan<LinkIntervals>
  typealias Layers = Loan<LinkPHYs>

  static func configuration(
    _ shortest: UInt16, _ longest: UInt16, latency: UInt16 = 0, timeout: UInt16 = 42
  ) -> DefaultSystemConfiguration {
    DefaultSystemConfiguration([
      .minimumInterval: shortest, .maximumInterval: longest, .latency: latency, .supervisionTimeout: timeout,
    ])
  }

  static let kernels = configuration(24, 40)
  static let ours = configuration(9, 12)

  /// A `Loan` of controller 0 whose requested value has been written.
  static func lent() -> Intervals {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    _ = loan.handle(.found(kernels), at: .zero)
    _ = loan.handle(.written, at: .zero)
    return loan
  }

  // MARK: Changing and restoring a setting

  @Test("A controller setting is not read before a value is requested and a controller exists")
  func begins() {
    for wishIsFirst in [true, false] {
      var loan = Intervals()
      let first = loan.handle(wishIsFirst ? .wish(9...12) : .controller(0), at: .zero)
      let second = loan.handle(wishIsFirst ? .controller(0) : .wish(9...12), at: .zero)
      #expect(first.isEmpty && second == [.read(0)])
    }
  }

  @Test("A controller setting is read, written, and restored to the value that was read")
  func wholeLife() {
    var loan = Intervals()
    #expect(loan.isSettled)
    _ = loan.handle(.controller(0), at: .zero)
    #expect(loan.handle(.wish(9...12), at: .zero) == [.read(0)])
    #expect(!loan.isSettled)
    #expect(loan.handle(.found(Self.kernels), at: .zero) == [.write(Self.ours, over: Self.kernels, 0)])
    #expect(loan.handle(.written, at: .zero).isEmpty)
    #expect(loan.problem == nil && !loan.isSettled)
    // A repeated request causes no command.
    #expect(loan.handle(.wish(9...12), at: .zero).isEmpty)
    #expect(loan.handle(.wish(nil), at: .zero) == [.read(0)])
    #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(Self.kernels, over: Self.ours, 0)])
    #expect(!loan.isSettled)
    #expect(loan.handle(.written, at: .zero).isEmpty)
    #expect(loan.isSettled)
  }

  @Test("A controller setting that already has the requested value is neither written nor restored")
  func alreadyThere() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    #expect(loan.handle(.found(Self.configuration(9, 12, timeout: 500)), at: .zero).isEmpty)
    #expect(loan.isSettled)
    #expect(loan.handle(.wish(nil), at: .zero).isEmpty)
  }

  @Test("The settings of a returning controller are read again, and our values do not count as the original ones")
  func comesBack() {
    for isKept in [true, false] {
      var loan = Self.lent()
      #expect(loan.handle(.controller(nil), at: .zero).isEmpty)
      #expect(loan.handle(.controller(0), at: .zero) == [.read(0)])
      // bluetoothd left the value unchanged, or the kernel lost it.
      let written = loan.handle(.found(isKept ? Self.ours : Self.kernels), at: .zero)
      #expect(written == (isKept ? [] : [.write(Self.ours, over: Self.kernels, 0)]))
      if !isKept { _ = loan.handle(.written, at: .zero) }
      _ = loan.handle(.wish(nil), at: .zero)
      #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(Self.kernels, over: Self.ours, 0)])
    }
  }

  @Test("Fields of a controller setting that another program changed are preserved when it is written or restored")
  func foreignChange() {
    var loan = Self.lent()
    _ = loan.handle(.controller(nil), at: .zero)
    _ = loan.handle(.controller(0), at: .zero)
    // bluetoothd starts with a maximum interval and a latency of its own.
    let theirs = Self.configuration(9, 80, latency: 4)
    let again = Self.configuration(9, 12, latency: 4)
    #expect(loan.handle(.found(theirs), at: .zero) == [.write(again, over: theirs, 0)])
    _ = loan.handle(.written, at: .zero)
    _ = loan.handle(.wish(nil), at: .zero)
    let changed = Self.configuration(9, 12, latency: 4, timeout: 77)
    let returned = Self.configuration(24, 80, latency: 4, timeout: 77)
    #expect(loan.handle(.found(changed), at: .zero) == [.write(returned, over: changed, 0)])
  }

  @Test("A controller setting is restored while its controller is unused, and forgotten if the controller was removed")
  func withoutController() {
    for isRemoved in [true, false] {
      var loan = Self.lent()
      _ = loan.handle(.controller(nil), at: .zero)
      if isRemoved {
        #expect(loan.handle(.removed(1), at: .zero).isEmpty && !loan.isSettled)
        #expect(loan.handle(.removed(0), at: .zero).isEmpty)
      }
      #expect(loan.handle(.wish(nil), at: .zero) == (isRemoved ? [] : [.read(0)]))
      #expect(loan.isSettled == isRemoved)
    }
  }

  @Test(
    "When another controller is used, the settings of the first are restored before those of the second are written")
  func otherController() {
    var loan = Self.lent()
    #expect(loan.handle(.controller(1), at: .zero) == [.read(0)])
    #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(Self.kernels, over: Self.ours, 0)])
    #expect(loan.handle(.written, at: .zero) == [.read(1)])
    let others = Self.configuration(30, 50, timeout: 300)
    let wished = Self.configuration(9, 12, timeout: 300)
    #expect(loan.handle(.found(others), at: .zero) == [.write(wished, over: others, 1)])
  }

  @Test("A newly requested value is applied to the controller's original setting, not to the written one")
  func otherWish() {
    var loan = Self.lent()
    #expect(loan.handle(.wish(12...12), at: .zero) == [.read(0)])
    let wished = Self.configuration(12, 12)
    #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(wished, over: Self.ours, 0)])
    _ = loan.handle(.written, at: .zero)
    // A request for long intervals had a long timeout, which is no longer needed.
    let long = Self.configuration(24, 3200, timeout: 1201)
    _ = loan.handle(.wish(24...3200), at: .zero)
    #expect(loan.handle(.found(wished), at: .zero) == [.write(long, over: wished, 0)])
    _ = loan.handle(.written, at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    #expect(loan.handle(.found(long), at: .zero) == [.write(Self.ours, over: long, 0)])
    _ = loan.handle(.written, at: .zero)
    _ = loan.handle(.wish(nil), at: .zero)
    #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(Self.kernels, over: Self.ours, 0)])
  }

  @Test("A change of the requested controller setting during a command is handled once, after the command's answer")
  func changesMeanwhile() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    #expect(loan.handle(.controller(nil), at: .zero).isEmpty)
    #expect(loan.handle(.controller(0), at: .zero).isEmpty)
    #expect(loan.handle(.found(Self.kernels), at: .zero) == [.read(0)])
    _ = loan.handle(.found(Self.kernels), at: .zero)
    // The request ends while it is being written.
    #expect(loan.handle(.wish(nil), at: .zero).isEmpty)
    #expect(loan.handle(.written, at: .zero) == [.read(0)])
    #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(Self.kernels, over: Self.ours, 0)])
    // The request returns while the previous value is being restored.
    #expect(loan.handle(.wish(9...12), at: .zero).isEmpty)
    #expect(loan.handle(.written, at: .zero) == [.read(0)])
    #expect(loan.handle(.found(Self.kernels), at: .zero) == [.write(Self.ours, over: Self.kernels, 0)])
  }

  // MARK: Refusals

  @Test(
    "A controller settings command with a temporary error is repeated 4 times, then only for the next controller")
  func passing() {
    for refusal in [Intervals.Refusal.passing("Busy"), .off("Rejected")] {
      var (loan, now) = (Intervals(), Instant.zero)
      _ = loan.handle(.controller(0), at: now)
      _ = loan.handle(.wish(9...12), at: now)
      for milliseconds in [500, 1000, 2000] {
        #expect(loan.handle(.failed(refusal), at: now).isEmpty)
        #expect(loan.problem == nil)
        let due = now.advanced(by: .milliseconds(milliseconds))
        #expect(loan.deadline == due)
        #expect(loan.handle(.timer, at: now).isEmpty)
        now = due
        #expect(loan.handle(.timer, at: now) == [.read(0)])
      }
      #expect(loan.handle(.failed(refusal), at: now).isEmpty)
      #expect(loan.problem != nil && loan.deadline == nil)
      #expect(loan.handle(.timer, at: now.advanced(by: .seconds(1000))).isEmpty)
      #expect(loan.handle(.controller(0), at: now) == [.read(0)])
      #expect(loan.problem == nil)
      // The four attempts are counted from the beginning.
      #expect(loan.handle(.failed(refusal), at: now).isEmpty)
      #expect(loan.deadline == now.advanced(by: .milliseconds(500)))
    }
  }

  @Test("A controller settings command with a permanent error is repeated only for a different requested value")
  func lasting() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    #expect(loan.handle(.failed(.lasting("Unknown Command")), at: .zero).isEmpty)
    #expect(loan.problem == "Unknown Command" && loan.deadline == nil && loan.isSettled)
    #expect(loan.handle(.wish(12...12), at: .zero) == [.read(0)])
    #expect(loan.problem == nil)
  }

  @Test("A controller setting that the kernel does not support is reported and not written")
  func noSetting() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    #expect(loan.handle(.found(DefaultSystemConfiguration([.minimumInterval: 24])), at: .zero).isEmpty)
    #expect(loan.problem == LinkIntervals.unknown)
  }

  @Test("A controller setting is restored even if its write was not answered")
  func unanswered() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    _ = loan.handle(.found(Self.kernels), at: .zero)
    _ = loan.handle(.failed(.passing("no answer")), at: .zero)
    #expect(loan.handle(.wish(nil), at: .zero) == [.read(0)])
    #expect(loan.handle(.found(Self.ours), at: .zero) == [.write(Self.kernels, over: Self.ours, 0)])
  }

  @Test("A controller setting whose write was refused is not restored")
  func refusedWrite() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    _ = loan.handle(.found(Self.kernels), at: .zero)
    _ = loan.handle(.failed(.lasting("Permission Denied")), at: .zero)
    #expect(loan.isSettled)
    #expect(loan.handle(.wish(nil), at: .zero).isEmpty)
  }

  @Test(
    "A missing or powered-off controller's settings are not restored; one that does not answer is tried 4 times"
  )
  func failedReturn() {
    for refusal in [Intervals.Refusal.gone, .off("Rejected"), .lasting("Failed")] {
      var loan = Self.lent()
      _ = loan.handle(.wish(nil), at: .zero)
      #expect(loan.handle(.failed(refusal), at: .zero).isEmpty)
      #expect(loan.isSettled && loan.problem == nil)
    }
    var (loan, now) = (Self.lent(), Instant.zero)
    _ = loan.handle(.wish(nil), at: now)
    for _ in 0..<3 {
      #expect(loan.handle(.failed(.passing("Busy")), at: now).isEmpty)
      now = loan.deadline ?? now
      #expect(loan.handle(.timer, at: now) == [.read(0)])
    }
    #expect(loan.handle(.failed(.passing("Busy")), at: now).isEmpty)
    #expect(loan.isSettled && loan.problem == nil && loan.deadline == nil)
  }

  @Test("A controller that is missing when its setting is read is awaited without a report")
  func goneAtOnce() {
    var loan = Intervals()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(9...12), at: .zero)
    #expect(loan.handle(.failed(.gone), at: .zero).isEmpty)
    #expect(loan.problem == nil && loan.deadline == nil)
    #expect(loan.handle(.controller(0), at: .zero) == [.read(0)])
  }

  @Test("An answer that was not requested changes no controller setting")
  func unasked() {
    var loan = Intervals()
    #expect(loan.handle(.found(Self.kernels), at: .zero).isEmpty)
    #expect(loan.handle(.written, at: .zero).isEmpty)
    #expect(loan.handle(.failed(.gone), at: .zero).isEmpty)
    #expect(loan.handle(.timer, at: .zero).isEmpty)
    #expect(loan.isSettled && loan.problem == nil)
  }

  // MARK: Requested values

  @Test(
    "Connection intervals get the requested values, and the supervision timeout is raised if necessary",
    arguments: [
      (9, 12, 0, 42, [9, 12, 0, 42]), (9, 12, 4, 42, [9, 12, 4, 42]), (24, 40, 3, 40, [24, 40, 3, 61]),
      (24, 40, 3, 41, [24, 40, 3, 41]), (24, 3200, 0, 800, [24, 3200, 0, 1201]),
      (24, 3200, 0, 801, [24, 3200, 0, 801]),
      (24, 3200, 499, 42, [24, 3200, 499, 3200]),
    ] as [(UInt16, UInt16, UInt16, UInt16, [UInt16])])
  func intervals(shortest: UInt16, longest: UInt16, latency: UInt16, timeout: UInt16, wished: [UInt16]) {
    let before = Self.configuration(24, 40, latency: latency, timeout: timeout)
    let after = LinkIntervals.wished(shortest...longest, from: before)
    let values = DefaultSystemConfiguration.Parameter.allCases.map { after?[$0] }
    #expect(values == wished.map { $0 })
  }

  @Test("Connection intervals are converted to units of 1.25 ms")
  func units() {
    let table: [(Duration, UInt16)] = [
      (.microseconds(7_500), 6), (.microseconds(11_250), 9), (.milliseconds(15), 12), (.seconds(4), 3200),
      (.seconds(1_000_000), .max),
    ]
    for (interval, count) in table { #expect(LinkIntervals.units(interval) == count) }
  }

  static func layers(_ selected: UInt32, supported: UInt32 = 0x7FFF) -> PHYConfiguration {
    PHYConfiguration(
      supported: PHYs(rawValue: supported), configurable: PHYs(rawValue: supported & ~0x0601),
      selected: PHYs(rawValue: selected))
  }

  @Test("LE 2M is added to the selected PHYs and removed again, and other PHYs are not changed")
  func twoM() {
    var loan = Layers()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(.le2M), at: .zero)
    #expect(
      loan.handle(.found(Self.layers(0x07FF)), at: .zero) == [.write(Self.layers(0x1FFF), over: Self.layers(0x07FF), 0)]
    )
    _ = loan.handle(.written, at: .zero)
    _ = loan.handle(.wish(nil), at: .zero)
    // LE Coded was selected as well meanwhile, by a different program.
    #expect(
      loan.handle(.found(Self.layers(0x7FFF)), at: .zero) == [.write(Self.layers(0x67FF), over: Self.layers(0x7FFF), 0)]
    )
  }

  @Test("A direction in which LE 2M was selected before stays selected when the setting is restored")
  func oneDirection() {
    var loan = Layers()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(.le2M), at: .zero)
    _ = loan.handle(.found(Self.layers(0x0FFF)), at: .zero)
    _ = loan.handle(.written, at: .zero)
    _ = loan.handle(.wish(nil), at: .zero)
    let (ours, theirs) = (Self.layers(0x1FFF), Self.layers(0x0FFF))
    #expect(loan.handle(.found(ours), at: .zero) == [.write(theirs, over: ours, 0)])
  }

  @Test(
    "A controller that has LE 2M selected already, or does not support it, is not changed",
    arguments: [0x7FFF, 0x07FF] as [UInt32])
  func no2M(supported: UInt32) {
    var loan = Layers()
    _ = loan.handle(.controller(0), at: .zero)
    _ = loan.handle(.wish(.le2M), at: .zero)
    #expect(loan.handle(.found(Self.layers(supported, supported: supported)), at: .zero).isEmpty)
    #expect(loan.problem == nil && loan.isSettled)
  }
}
