CREATE TABLE `questions` (
	`place` text PRIMARY KEY NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `questions_at` ON `questions` (`at`);