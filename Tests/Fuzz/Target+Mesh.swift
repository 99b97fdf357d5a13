extension Target {
  /// The engine of a mesh node as a whole: bytes and time in.
  static let mesh = [
    Target(
      name: "mesh", seeds: { MeshStand.seeds }, goals: MeshStand.goals,
      play: { bytes in
        var stand = MeshStand()
        var script = Script(bytes)
        while !script.isAtEnd { stand.step(&script) }
        return stand.reached
      })
  ]
}
