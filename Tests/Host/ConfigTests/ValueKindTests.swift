import Testing

@testable import Config

@Suite struct ValueKindTests {
  private enum Fruit: String, CaseIterable, Sendable { case apple, pear, fig }

  /// Checks that each text is read as its value (nil: refused), and that the output of `show` is read back.
  private func check<Value>(_ kind: ValueKind<Value>, _ cases: [(String, Value?)]) {
    for (text, expected) in cases {
      let value = try? kind.parse(text).get()
      #expect(value == expected, "\(text)")
      guard let value else { continue }
      #expect(try! kind.parse(kind.show(value)).get() == value, "\(text)")
    }
  }

  @Test("A boolean setting accepts systemd's words for true and false")
  func bool() {
    check(
      .bool,
      [
        ("yes", true), ("True", true), ("ON", true), ("1", true), ("no", false), ("false", false), ("off", false),
        ("0", false), ("maybe", nil), ("2", nil),
      ])
    #expect(ValueKind.bool.show(true) == "yes" && ValueKind.bool.show(false) == "no")
  }

  @Test("A number setting accepts only integers in its range")
  func number() {
    check(
      .number(1...16),
      [
        ("1", 1), ("16", 16), ("0", nil), ("17", nil), ("-1", nil), ("1.5", nil), ("x", nil),
        ("99999999999999999999", nil),
      ])
    #expect(ValueKind.number(1...16).form == "a number from 1 to 16")
  }

  @Test("A size setting accepts suffixes for powers of 1024, and only sizes in its range")
  func size() {
    check(
      .size(1024...(64 << 20)),
      [
        ("1024", 1024), ("1K", 1024), ("1k", 1024), ("4M", 4 << 20), ("64M", 64 << 20), ("1023", nil), ("65M", nil),
        ("1G", nil), ("4MB", nil), ("M", nil), ("-4M", nil), ("+4M", nil), ("9223372036854775807G", nil),
      ])
    #expect(ValueKind.size(1024...(64 << 20)).form == "a size from 1K to 64M")
    let shown = [(0, "0"), (1, "1"), (1000, "1000"), (1536, "1536"), (2048, "2K"), (3 << 20, "3M"), (1 << 30, "1G")]
    for (size, text) in shown {
      #expect(Size.show(size) == text)
      #expect(Size.parse(text) == size)
    }
  }

  @Test("A list setting is separated by white space or commas, and for a repeated key the last word applies")
  func ownWords() {
    let kind = ValueKind<[Int]>.words(
      "one or more numbers", upTo: 3, key: { $0 % 10 }, show: { "\($0)" }, parse: { Int($0) })
    check(
      kind,
      [
        ("1", [1]), ("1 2,3", [1, 2, 3]), ("1\t2 11", [2, 11]), ("1 2 3 14 13", nil), ("1 2 3 11", [2, 3, 11]),
        ("1 x", nil), (" , ", nil),
      ])
    #expect(kind.show([2, 11]) == "2 11" && kind.show([]) == "")
    #expect(kind.form == "one or more numbers")
  }

  @Test("A time span setting has units, may be a sum, and must be in its range")
  func duration() {
    check(
      .duration(.milliseconds(40) ... .seconds(7_200)),
      [
        ("40ms", .milliseconds(40)), ("30s", .seconds(30)), ("30", .seconds(30)), ("1min", .seconds(60)),
        ("1min 30s", .seconds(90)), ("1min30", .seconds(90)), ("2 h", .seconds(7_200)),
        ("1s 500ms", .milliseconds(1_500)),
        ("39ms", nil), ("2h 1ms", nil), ("s", nil), ("30x", nil), ("-30s", nil), ("1.5s", nil), ("", nil),
        ("9223372036854775807h", nil), ("99999999999999999999s", nil),
      ])
    #expect(ValueKind.duration(.zero ... .seconds(90)).form == "a time from 0s to 90s")
    let shown: [(Duration, String)] = [
      (.zero, "0s"), (.milliseconds(40), "40ms"), (.seconds(90), "90s"), (.seconds(120), "2min"),
      (.seconds(3_600), "1h"),
    ]
    for (duration, text) in shown {
      #expect(TimeSpan.show(duration) == text)
      #expect(TimeSpan.parse(text) == duration)
    }
  }

  @Test("A setting of one or two times needs ascending multiples of its step, or one of its words")
  func steps() {
    let kind = ValueKind.steps(.microseconds(7_500) ... .seconds(4), step: .microseconds(1_250))
    check(
      kind,
      [
        ("11.25ms 15ms", .microseconds(11_250) ... .milliseconds(15)),
        ("15ms", .milliseconds(15) ... .milliseconds(15)),
        ("7.5ms,4s", .microseconds(7_500) ... .seconds(4)),
        ("7.50ms 0.01s", .microseconds(7_500) ... .milliseconds(10)),
        ("0.011250s 1s", .microseconds(11_250) ... .seconds(1)), ("15ms 15ms", .milliseconds(15) ... .milliseconds(15)),
        // Out of range, not a multiple, in the wrong order, or too many.
        ("6.25ms", nil), ("4.00125s", nil), ("11ms", nil), ("11.251ms", nil), ("15ms 11.25ms", nil),
        ("10ms 15ms 20ms", nil), ("", nil), ("15", nil), ("15 ms", nil), ("15ms-20ms", nil), ("-15ms", nil),
        ("15.ms", nil), (".5s", nil), ("1.2.5s", nil), ("11.2500ms", nil), ("1x.5ms", nil), ("٣٠ms", nil),
        ("9223372036854775807s", nil), ("7.5ms 15", nil), ("kernel", nil),
      ])
    #expect(kind.form == "one or two times from 7.5ms to 4s, in steps of 1.25ms, the shorter first")
    let shown: [(ClosedRange<Duration>, String)] = [
      (.microseconds(11_250) ... .milliseconds(15), "11.25ms 15ms"), (.milliseconds(15) ... .milliseconds(15), "15ms"),
      (.microseconds(1_005_000) ... .seconds(2), "1005ms 2s"),
      (.microseconds(10_005) ... .milliseconds(11), "10.005ms 11ms"),
    ]
    for (times, text) in shown { #expect(kind.show(times) == text) }
    let either = ValueKind.either(kind, or: "kernel")
    #expect(either.parse("kernel") == .success(nil) && either.show(nil) == "kernel")
    #expect(either.parse("15ms") == .success(.milliseconds(15) ... .milliseconds(15)))
    #expect(either.parse("Kernel") == .failure(.form) && either.parse("") == .failure(.form))
    #expect(either.form == "\(kind.form), or kernel")
  }

  @Test("A text setting is limited in bytes, and refuses control characters")
  func text() {
    check(
      .text(upTo: 14),
      [
        ("OVPMOSIP", "OVPMOSIP"), ("ééééééé", "ééééééé"), ("éééééééé", nil), ("123456789012345", nil),
        ("a\u{1B}b", nil),
      ])
  }

  @Test("A path setting must be absolute, and a socket path must fit a socket address")
  func path() {
    let long = "/" + String(repeating: "x", count: 106)
    check(.path(isSocket: true), [("/run/air", "/run/air"), ("air", nil), (long, long), (long + "x", nil)])
    check(.path(), [(long + "x", long + "x")])
  }

  @Test("A choice setting is one of its words, and a list of choices contains each word at most once")
  func words() {
    check(ValueKind<Fruit>.choice, [("pear", .pear), ("Pear", nil), ("plum", nil), ("pear fig", nil)])
    check(
      ValueKind<[Fruit]>.list(),
      [
        ("pear", [.pear]), ("fig, apple", [.fig, .apple]), ("fig,fig pear", [.fig, .pear]), ("fig plum", nil),
        (",", nil),
      ])
    #expect(ValueKind<Fruit>.choice.form == "apple, pear or fig")
    #expect(ValueKind<[Fruit]>.list().form == "one or more of apple, pear and fig")
    check(.optional(.choice), [("fig", Fruit?.some(.fig)), ("plum", nil)])
    check(.choice(of: [1, 2]) { $0 == 1 ? "one" : "two" }, [("two", 2), ("one", 1), ("three", nil), ("2", nil)])
    check(ValueKind<Fruit>.choice.converted(into: { [$0] }, back: { $0[0] }), [("fig", [Fruit.fig]), ("plum", nil)])
  }
}
