extension ValueKind where Value == ClosedRange<Duration> {
  /// One time or two, in ascending order: `11.25ms 15ms`. Each has the unit `ms` or `s`, and any number of decimals.
  ///
  /// - Parameter step: each time must be a multiple of it; whole microseconds.
  public static func steps(_ range: ClosedRange<Duration>, step: Duration) -> ValueKind {
    let show: @Sendable (Duration) -> String = { DecimalTime.show($0) }
    let form =
      "one or two times from \(show(range.lowerBound)) to \(show(range.upperBound)), in steps of \(show(step)), the shorter first"
    return ValueKind(
      form,
      show: {
        $0.lowerBound == $0.upperBound ? show($0.lowerBound) : "\(show($0.lowerBound)) \(show($0.upperBound))"
      },
      parse: { text in
        let words = text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "\t" })
        let times = words.compactMap { DecimalTime.parse(String($0)) }
        guard (1...2).contains(words.count), times.count == words.count, let first = times.first, let last = times.last,
          first <= last,
          times.allSatisfy({ range.contains($0) && DecimalTime.count($0).isMultiple(of: DecimalTime.count(step)) })
        else { return .failure(.form) }
        return .success(first...last)
      })
  }
}
